-- KEYS locks fences  ARGV token tombstone fence_ttl_ms
-- Deletes our keys, and refuses every smaller ballot from now on. Answers how many were deleted.
local count = #KEYS / 2
-- First: a server without memory refuses the tombstone unless something was written before it.
local deleted = delete((look(count)))
local _, each = look_at_fences(count)
raise_fences(count, each, ARGV[2], ARGV[3])
return deleted
