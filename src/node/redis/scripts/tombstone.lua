-- KEYS lock fence  ARGV token tombstone fence_ttl_ms
-- Deletes our key, and refuses every smaller ballot from now on. Answers how many keys were deleted.
local deleted = 0
-- A key of another type is not ours, and no reason to leave the tombstone out.
if redis.pcall('GET', KEYS[1]) == ARGV[1] then
  -- First: a server without memory refuses the tombstone unless something was written before it.
  deleted = redis.call('DEL', KEYS[1])
end
if tonumber(ARGV[2]) > tonumber(redis.call('GET', KEYS[2]) or '0') then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
else
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
return deleted
