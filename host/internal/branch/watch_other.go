//go:build !linux

package branch

type baseWatch struct{}

func watchBase(string) *baseWatch { return &baseWatch{} }

func (*baseWatch) changed() bool { return true }
func (*baseWatch) close()        {}
