-- KEYS lock fence  ARGV token ttl_ms ballot fence_ttl_ms
-- Answers 1: granted, {0, pttl, fence}: somebody else's, {-1, fence}: the ballot is too small.
local owner = redis.call('GET', KEYS[1])
local fence = redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1]), fence}
end
local largest, ballot = tonumber(fence or '0'), tonumber(ARGV[3])
if owner and ballot == largest then
  return 1
end
if ballot <= largest then
  return {-1, fence}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
return 1
