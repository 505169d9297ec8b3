package process

import (
	"os"
	"os/exec"
	"syscall"
)

// guardScript waits until nobody holds the other end of descriptor 3. Then this process
// was killed, and it kills all that has the mark in its environment, until it sees no
// more of it. A byte tells it that there is nothing to do.
const guardScript = `read -rN1 -u 3 && exit
for ((round = 0; round < 50; round++)); do
	found=
	for dir in /proc/[0-9]*; do
		while IFS= read -rd '' entry; do
			if [[ $entry == "$1"* ]]; then
				kill -KILL "${dir#/proc/}" && found=1
				break
			fi
		done <"$dir/environ"
	done 2>/dev/null
	[[ $found ]] || exit 0
done`

// guard is a process that outlives this one.
type guard struct {
	cmd  *exec.Cmd
	life *os.File
}

// Guard starts, once, a process that kills what commands have started when this process
// is killed itself: the kernel then ends the commands, but not their children. What has
// neither the mark in its environment is not found by it, and nothing is done when the
// guard is killed too. bash is the path of the shell that it runs in.
func (k *Keeper) Guard(bash string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.guard != nil {
		return nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()                                                                                          //nolint:errcheck // the guard has it
	cmd := exec.Command(bash, "--norc", "--noprofile", "-c", guardScript, "toolhost-guard", MarkEnv+"="+k.prefix) //nolint:gosec // a fixed script
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", []string{"LC_ALL=C"}, []*os.File{theirs}
	// In our session it is not taken for something that a command left, and in a group
	// of its own it is not killed with ours.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started := make(chan error)
	k.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		_ = ours.Close()
		return err
	}
	k.guard = &guard{cmd: cmd, life: ours}
	return nil
}

// dismiss ends the guard.
func (g *guard) dismiss() {
	if g != nil {
		_, _ = g.life.Write([]byte{'\n'})
		_ = g.life.Close()
		_ = g.cmd.Wait()
	}
}
