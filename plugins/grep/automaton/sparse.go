package automaton

// sparse is a set of small numbers. It keeps the order of insertion and is cleared in constant time.
type sparse struct {
	dense []int32
	where []int32
}

func (s *sparse) init(n int) { s.dense, s.where = make([]int32, 0, n), make([]int32, n) }
func (s *sparse) clear()     { s.dense = s.dense[:0] }
func (s *sparse) len() int   { return len(s.dense) }

// add adds a number and reports whether the set did not contain it.
func (s *sparse) add(i int32) bool {
	if w := s.where[i]; int(w) < len(s.dense) && s.dense[w] == i {
		return false
	}
	s.where[i] = int32(len(s.dense)) // #nosec G115 -- at most maxInsts
	s.dense = append(s.dense, i)
	return true
}
