-- KEYS locks fences  ARGV token ttl_ms ballot fence_ttl_ms
-- All or none. Answers 1: granted, {0, pttl, fence, {place, pttl, ..}}: these are somebody else's, {-1, fence}:
-- the ballot is too small.
local count = #KEYS / 2
local ours, free, longest, _, others = look(count)
local fence, each = look_at_fences(count)
local largest, ballot = tonumber(fence or '0'), tonumber(ARGV[3])
if #ours == count and ballot == largest then
  return 1
end
if longest or ballot <= largest then
  if #ours < count then
    delete(ours)
  end
  return longest and {0, longest, fence, others} or {-1, fence}
end
set(ours)
set(free)
raise_fences(count, each, ARGV[3], ARGV[4])
return 1
