-- KEYS locks  ARGV token
-- Answers how many were ours, and are deleted.
return delete((look(#KEYS)))
