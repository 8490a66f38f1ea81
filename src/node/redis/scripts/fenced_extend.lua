-- KEYS locks fences  ARGV token ttl_ms ballot fence_ttl_ms heal
-- Answers as fenced_acquire. Sets keys again only if heal is 1, and no larger ballot has come.
local count = #KEYS / 2
local ours, free, longest = look(count)
local fence, each = look_at_fences(count)
if #ours < count then
  local heals = ARGV[5] == '1' and not longest
  if not heals or tonumber(ARGV[3]) < tonumber(fence or '0') then
    delete(ours)
    return heals and {-1, fence} or {0, longest or -2, fence}
  end
end
lengthen(ours)
set(free)
raise_fences(count, each, ARGV[3], ARGV[4])
return 1
