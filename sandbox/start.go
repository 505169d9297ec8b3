package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"toolhost.dev/sandbox/confine"
)

// Init runs the launcher if the process was started as one, and then does not return. A program that uses [Start] must
// call Init at the beginning of main, because Start starts the program's own executable as the launcher.
func Init() {
	if len(os.Args) > 0 && os.Args[0] == launcherName {
		confine.Main()
	}
}

// launcherName is the first word of a launcher's command line.
const launcherName = "toolhost-sandbox"

// Self returns what this machine can enforce with the program's own executable as the launcher. The program must call
// [Init].
func Self() (Kernel, error) { return self() }

var self = sync.OnceValues(func() (Kernel, error) {
	launcher, err := os.Executable()
	if err != nil {
		return Kernel{}, err
	}
	return Probe(launcher, ""), nil
})

// Start starts a command under the strongest backend of this machine, and returns when its program runs. The caller
// must then call Wait of the command. The binary and the environment of the place are those of the command. If this
// machine cannot confine the command, Start returns an error and starts nothing.
//
// The program must call [Init]. Start opens no proxy, so the profile cannot list hosts; see [Backend] and package
// egress.
func Start(cmd *exec.Cmd, p Profile, at Place) error {
	defer func() {
		for _, m := range at.Mounts {
			_ = m.Close()
		}
	}()
	if len(p.Hosts) > 0 {
		return errors.New("a list of hosts needs a proxy; use Backend.Wrap and package egress")
	}
	kernel, err := self()
	if err != nil {
		return err
	}
	backend, why := kernel.Choose(Auto)
	if !backend.Abilities().Confines {
		return fmt.Errorf("this machine cannot confine a program: %w", why)
	}
	if own := (Namespaces{}).Unusable(&kernel); len(at.Mounts) > 0 && own != nil {
		return fmt.Errorf("a program cannot have mounts of its own: %w", own)
	}
	at.Binary, at.Env = cmd.Path, cmd.Environ()
	policy, env, err := p.Policy(at, kernel.ABI)
	if err != nil {
		return err
	}
	policy.Dir, cmd.Env = cmd.Dir, env
	running, err := backend.Wrap(cmd, kernel.Launcher, policy)
	if err != nil {
		return err
	}
	if _, err = running(cmd.Start(), nil); err != nil && cmd.Process != nil {
		_ = cmd.Wait() // only to release the process, which never ran the command
	}
	return err
}
