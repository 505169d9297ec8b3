//go:build fakebackend

package sandbox

import (
	"errors"
	"os/exec"

	"toolhost.dev/sandbox/confine"
)

func init() { backends = append([]Backend{fake{}}, backends...) }

// fake is a backend that is listed as the strongest but that no machine supports. A test uses it to show that adding a
// backend needs only one file.
type fake struct{}

func (fake) Name() string         { return "fake" }
func (fake) Summary() string      { return "a fake for tests" }
func (fake) Abilities() Abilities { return Abilities{Confines: true, OwnRoot: true} }

var errFake = errors.New("the sandbox \"fake\" exists only for tests: use \"ns\"")

func (fake) Unusable(*Kernel) error { return errFake }

func (fake) Wrap(*exec.Cmd, string, confine.Policy) (Running, error) { return nil, errFake }
