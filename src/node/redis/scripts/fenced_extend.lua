-- KEYS lock fence  ARGV token ttl_ms ballot fence_ttl_ms heal
-- Answers as fenced_acquire. Sets the key again only if heal is 1, and no larger ballot has come.
local owner = redis.call('GET', KEYS[1])
local fence = redis.call('GET', KEYS[2])
local largest, ballot = tonumber(fence or '0'), tonumber(ARGV[3])
if owner == ARGV[1] then
  -- Never shortens: an earlier promise of validity must stand.
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
elseif owner or ARGV[5] ~= '1' then
  return {0, redis.call('PTTL', KEYS[1]), fence}
elseif ballot < largest then
  return {-1, fence}
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if ballot > largest then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
else
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end
return 1
