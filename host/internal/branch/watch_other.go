//go:build !linux

package branch

// baseWatch is not necessary on this system, which has no branches.
type baseWatch struct{ users int }

type position uint64

func watchBase(string) *baseWatch { return &baseWatch{} }

func (*baseWatch) read() (now, names position)               { return 0, 0 }
func (*baseWatch) since(position) (paths []string, all bool) { return nil, true }
func (*baseWatch) close()                                    {}
