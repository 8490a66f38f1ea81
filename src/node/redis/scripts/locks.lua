-- What every script about several locks begins with. The first `count` keys are locks.

-- Those that are ours, those that are free, and the longest ttl of the others: nil where there are
-- none, -1 where one does not expire. Then the error of one that is of another type, if one is, and
-- the places of the others, each with its ttl.
local function look(count)
  local ours, free, longest, mistyped, others = {}, {}, nil, nil, {}
  for i = 1, count do
    local value = redis.pcall('GET', KEYS[i])
    if type(value) == 'table' then
      -- Any other error ends the script here, where nothing is written yet.
      mistyped = string.find(value.err, 'WRONGTYPE', 1, true) and value or redis.call('GET', KEYS[i])
    end
    if value == ARGV[1] then
      ours[#ours + 1] = KEYS[i]
    elseif not value then
      free[#free + 1] = KEYS[i]
    else
      local left = redis.call('PTTL', KEYS[i])
      others[#others + 1] = i
      others[#others + 1] = left
      longest = (left < 0 or longest == -1) and -1 or math.max(left, longest or 0)
    end
  end
  return ours, free, longest, mistyped, others
end

local function set(keys)
  for _, key in ipairs(keys) do
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
  end
end

-- Never shortens: an earlier promise of validity must stand.
local function lengthen(keys)
  for _, key in ipairs(keys) do
    if redis.call('PTTL', key) < tonumber(ARGV[2]) then
      redis.call('PEXPIRE', key, ARGV[2])
    end
  end
end

-- Answers how many there were.
local function delete(keys)
  return #keys > 0 and redis.call('DEL', unpack(keys)) or 0
end

