package shell

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/plugins/bash/session"
	"toolhost.dev/sdk/tool"
)

// Seed contains the properties of a shell that are known before the command arrives.
type Seed struct {
	Bash string // path of bash
	Dir  string
	// Env is the environment of a new session; see [Environment].
	Env   []string
	State session.State
	// StateBytes is the encoded form of State. It is used to compare states.
	StateBytes []byte
	// Tools connects commands to the host's tools. Its token is valid for one command. A nil Tools means that
	// commands cannot call tools.
	Tools *tool.Commands
}

// same reports whether a shell that was started with the seed o can run a command for the seed s. The last
// exit status is allowed to differ, because a shell receives it only when it is woken.
func (s *Seed) same(o *Seed) bool {
	return s.Bash == o.Bash && s.Dir == o.Dir && s.sameState(o) && slices.Equal(s.Env, o.Env) &&
		(s.Tools == nil) == (o.Tools == nil) &&
		(s.Tools == nil || s.Tools.Address == o.Tools.Address && s.Tools.Dir == o.Tools.Dir)
}

func (s *Seed) sameState(o *Seed) bool {
	if s.State.Snapshot == nil || o.State.Snapshot == nil {
		return s.State.Snapshot == o.State.Snapshot // both are nil for two new sessions
	}
	return session.SameButLast(s.StateBytes, o.StateBytes)
}

// instance is a shell that has been started in advance. It restores the session's state and then waits for its
// command.
type instance struct {
	tree *process.Tree
	// place identifies the directory in which the shell was started, even if the directory was renamed later.
	place os.FileInfo
	// These files are the plugin's ends of the shell's pipes.
	stdout, stderr, wakeup, status *os.File
	dump                           dump
	// stdin is the write end of the shell's standard input. It is nil if standard input is not kept open.
	stdin *os.File
	// These files are read by the shell when it is woken.
	begin, input *os.File
	// asleep means that the shell ended before it was woken.
	asleep bool
}

// files contains the pipe ends that a shell uses.
type files struct {
	theirs []*os.File       // the shell's ends of pipes; this process must close them
	at     map[int]*os.File // files indexed by their descriptor number in the shell
}

func (f *files) add(fd int, file *os.File) {
	f.theirs = append(f.theirs, file)
	f.at[fd] = file
}

// pipe creates a pipe. The shell gets the write end as descriptor fd, and this process gets the read end.
func (f *files) pipe(fd int) (ours *os.File, err error) {
	r, w, err := os.Pipe()
	if err == nil {
		f.add(fd, w)
	}
	return r, err
}

// pipeIn creates a pipe. The shell gets the read end as descriptor fd, and this process gets the write end.
func (f *files) pipeIn(fd int) (ours *os.File, err error) {
	r, w, err := os.Pipe()
	if err == nil {
		f.add(fd, r)
	}
	return w, err
}

// newInstance starts a shell with the standard input of the command c. If c is nil, standard input is empty.
func newInstance(keeper *process.Keeper, s *Seed, c *Command) (started *instance, err error) {
	in := &instance{}
	theirs := &files{at: make(map[int]*os.File)}
	defer func() {
		closeAll(theirs.theirs)
		if err != nil {
			in.close()
		}
	}()
	err = in.connect(theirs, s)
	if err == nil {
		err = in.connectStdin(theirs, c)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the shell's files: %w", err)
	}
	before, err := os.Stat(s.Dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.Bash, "--norc", "--noprofile", "-c", boot, "bash") //nolint:gosec // running commands is what this is for
	cmd.Dir = s.Dir
	cmd.Env = append(slices.Clone(s.Env), "PWD="+s.Dir)
	if f := theirs.at[0]; f != nil {
		cmd.Stdin = f // a nil file means /dev/null
	}
	cmd.Stdout, cmd.Stderr = theirs.at[1], theirs.at[2]
	cmd.ExtraFiles = make([]*os.File, session.StatusFD-2)
	for fd, f := range theirs.at {
		if fd > 2 {
			cmd.ExtraFiles[fd-3] = f
		}
	}
	if in.tree, err = keeper.StartIdle(cmd); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", s.Bash, err)
	}
	// If another directory replaced s.Dir during the start, the working directory of the shell is unknown.
	if after, err := os.Stat(s.Dir); err == nil && os.SameFile(before, after) {
		in.place = after
	}
	return in, nil
}

// blank is the initial content of the file "begin". Writing it makes the kernel allocate the file's memory in
// advance. For a short command, the allocation would take most of the time of the write.
var blank = strings.Repeat("\x00", 4096)

// connect creates the files of a shell. If connect fails, the instance and the argument "theirs" contain the files that
// were created before the error.
func (in *instance) connect(theirs *files, s *Seed) (err error) {
	for fd, ours := range map[int]**os.File{1: &in.stdout, 2: &in.stderr} {
		if *ours, err = theirs.pipe(fd); err != nil {
			return err
		}
	}
	widen(in.stdout, outputSize)
	told, telling, err := plainPipe()
	if err != nil {
		return err
	}
	theirs.add(session.DumpFD, telling)
	if in.dump, err = newDump(told); err != nil {
		return err
	}
	if in.status, err = theirs.pipe(session.StatusFD); err != nil {
		return err
	}
	wakes, wakeup, err := plainPipe()
	if err != nil {
		return err
	}
	theirs.add(wakeFD, wakes)
	in.wakeup = wakeup
	script, err := nameless(s.State.Script(s.Env, grants(s.Tools)+handler(s.Tools)) + session.Texts())
	if err != nil {
		return err
	}
	theirs.add(session.ScriptFD, script)
	if in.begin, err = nameless(blank); err != nil {
		return err
	}
	theirs.at[beginFD] = in.begin
	if f := commandsSocket(s.Tools); f != nil {
		theirs.at[commandsFD] = f
	}
	return nil
}

// connectStdin creates the shell's standard input. If c is nil, it creates a file to which the input of a later
// command can be written.
func (in *instance) connectStdin(theirs *files, c *Command) (err error) {
	switch {
	case c == nil:
		if in.input, err = nameless(""); err == nil {
			theirs.at[stdinFD] = in.input
		}
	case c.KeepStdin:
		in.stdin, err = theirs.pipeIn(0)
	case c.Stdin != nil:
		var f *os.File
		if f, err = nameless(*c.Stdin); err == nil {
			theirs.add(0, f)
		}
	}
	return err
}

// wake passes the command to the shell. It writes the files at offset 0 without changing their file offsets, because
// the shell shares the offsets.
func (in *instance) wake(c *Command) error {
	stdin := c.Stdin != nil && in.input != nil
	if stdin {
		if _, err := in.input.WriteAt([]byte(*c.Stdin), 0); err != nil {
			return fmt.Errorf("cannot give the command its standard input: %w", err)
		}
	}
	if _, err := in.begin.WriteAt([]byte(begin(c, stdin)), 0); err != nil {
		return fmt.Errorf("cannot give the shell its command: %w", err)
	}
	in.tree.Wake()
	_, err := in.wakeup.Write([]byte{'\n'})
	closeAll([]*os.File{in.begin, in.input}) // close the files in parallel with the running shell
	in.begin, in.input = nil, nil
	if errors.Is(err, syscall.EPIPE) {
		err, in.asleep = nil, true
	}
	return err
}

// slept records whether an ended shell left the wake-up byte unread.
func (in *instance) slept() {
	if !in.asleep {
		in.asleep = unread(in.wakeup)
	}
}

// listen returns a channel. If the shell reports the exit status before it ends, the channel receives the status. The
// goroutine behind the channel ends when [instance.leave] is called.
func (in *instance) listen() <-chan int {
	told := make(chan int, 1)
	go func() {
		buf := make([]byte, 8)
		n, err := in.status.Read(buf)
		if exit, ok := session.ParseStatus(buf[:n]); ok {
			told <- exit
		}
		for err == nil { // continue to read, because a full pipe would block a writer
			_, err = in.status.Read(buf)
		}
	}()
	return told
}

// endTime limits the time between a shell's report of the exit status and its end.
const endTime = 2 * time.Second

// leave closes all pipes except the output pipes. The argument "told" means that the exit status was reported. Another
// process can have written that status, so leave first makes sure that the shell ends.
func (in *instance) leave(told bool) {
	if told {
		limit := time.NewTimer(endTime)
		defer limit.Stop()
		select {
		case <-in.tree.Done():
		case <-limit.C:
			in.tree.Kill(0)
		}
	}
	closeAll([]*os.File{in.dump.pipe, in.wakeup, in.status})
}

// standsIn reports whether dir still names the working directory of the shell.
func (in *instance) standsIn(dir string) bool {
	now, err := os.Stat(dir)
	return err == nil && in.place != nil && os.SameFile(in.place, now)
}

// discard kills a shell that was not woken.
func (in *instance) discard() {
	in.tree.Abandon()
	in.close()
}

func (in *instance) close() {
	closeAll([]*os.File{in.stdout, in.stderr, in.dump.pipe, in.wakeup, in.status, in.stdin, in.begin, in.input})
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
