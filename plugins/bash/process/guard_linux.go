package process

import (
	"os"
	"os/exec"
	"syscall"
)

// guardScript waits until the other end of descriptor 3 is closed, which means that the plugin was killed. Then it
// kills all processes with the mark in their environment, until no such process is left. If it reads a byte from the
// descriptor, it exits without killing.
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

// guard is a process that continues after the plugin is killed.
type guard struct {
	cmd  *exec.Cmd
	life *os.File
}

// Guard starts a guard process at its first call. If this process is killed, the kernel ends the commands but not the
// children of the commands. The guard then kills these children. It finds only processes with the mark in their
// environment. It has no effect if it is killed too. The argument "bash" is the path of the shell that runs the guard.
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
	// The guard stays in the session of this process, because it would otherwise be treated as an orphan. The guard has
	// its own process group. Therefore a signal to the group of this process does not kill it.
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

// dismiss ends the guard. A nil guard is ignored.
func (g *guard) dismiss() {
	if g != nil {
		_, _ = g.life.Write([]byte{'\n'})
		_ = g.life.Close()
		_ = g.cmd.Wait()
	}
}
