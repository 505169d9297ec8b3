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

// Seed is what a shell is made of, before there is a command for it.
type Seed struct {
	Bash string // path
	Dir  string
	// Env is the environment of a new session; see [Environment].
	Env   []string
	State session.State
	// StateBytes are what State was decoded from, to tell one state from another.
	StateBytes []byte
	// Tools, when not nil, is how commands reach the host's tools. Its token belongs to
	// one command.
	Tools *tool.Commands
}

// same reports whether a shell made of o is as good as one made of s. What was the last
// status a shell is told when it is woken.
func (s *Seed) same(o *Seed) bool {
	return s.Bash == o.Bash && s.Dir == o.Dir && s.sameState(o) && slices.Equal(s.Env, o.Env) &&
		(s.Tools == nil) == (o.Tools == nil) && (s.Tools == nil || s.Tools.Address == o.Tools.Address && s.Tools.Dir == o.Tools.Dir)
}

func (s *Seed) sameState(o *Seed) bool {
	if s.State.Snapshot == nil || o.State.Snapshot == nil {
		return s.State.Snapshot == o.State.Snapshot // both are new sessions
	}
	return session.SameButLast(s.StateBytes, o.StateBytes)
}

// instance is one shell. It waits, with the session's state restored or about to be,
// until it is woken with a command.
type instance struct {
	tree *process.Tree
	// place is the directory that it was started in, which may have another name now.
	place os.FileInfo
	// Our ends of its pipes.
	stdout, stderr, wakeup, status *os.File
	dump                           dump
	// stdin is the other end of its standard input, when that is kept open.
	stdin *os.File
	// Files that it reads when it is woken.
	begin, input *os.File
	// asleep: it has ended, and was never awake.
	asleep bool
}

// files are what a shell has on its side.
type files struct {
	theirs []*os.File       // to be closed here
	at     map[int]*os.File // by descriptor
}

func (f *files) add(fd int, file *os.File) {
	f.theirs = append(f.theirs, file)
	f.at[fd] = file
}

// pipe makes a pipe of which the shell has the end for writing.
func (f *files) pipe(fd int) (ours *os.File, err error) {
	r, w, err := os.Pipe()
	if err == nil {
		f.add(fd, w)
	}
	return r, err
}

// pipeIn makes a pipe of which the shell has the end for reading.
func (f *files) pipeIn(fd int) (ours *os.File, err error) {
	r, w, err := os.Pipe()
	if err == nil {
		f.add(fd, r)
	}
	return w, err
}

// newInstance starts a shell. Its standard input is what c wants, or empty when there is
// no command yet.
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
		cmd.Stdin = f // else /dev/null
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
	// When the directory was replaced meanwhile, it is not known which one it is.
	if after, err := os.Stat(s.Dir); err == nil && os.SameFile(before, after) {
		in.place = after
	}
	return in, nil
}

// blank is what the file of the beginning has at first: of the time that most commands take to be
// written the kernel would need the greatest part to find memory.
var blank = strings.Repeat("\x00", 4096)

// connect makes the files of a shell. What it has made when it fails is in in and theirs.
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

// connectStdin makes its standard input, or the file that it can take it from later.
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

// wake hands the command over. The shell's end of the files has an offset of its own
// use: they are written at their beginning.
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
	closeAll([]*os.File{in.begin, in.input}) // while the shell begins
	in.begin, in.input = nil, nil
	if errors.Is(err, syscall.EPIPE) {
		err, in.asleep = nil, true
	}
	return err
}

// slept notes of a shell that has ended whether it has not taken what was to wake it.
func (in *instance) slept() {
	if !in.asleep {
		in.asleep = unread(in.wakeup)
	}
}

// listen returns the exit status that the shell tells before its end, if it does. It ends with [instance.leave].
func (in *instance) listen() <-chan int {
	told := make(chan int, 1)
	go func() {
		buf := make([]byte, 8)
		n, err := in.status.Read(buf)
		if exit, ok := session.ParseStatus(buf[:n]); ok {
			told <- exit
		}
		for err == nil { // nobody who writes more is held up by that
			_, err = in.status.Read(buf)
		}
	}()
	return told
}

// endTime is how long a shell may take to end after it has told that its command is over.
const endTime = 2 * time.Second

// leave closes our ends of all pipes but those of the output. Of a shell that told that its command
// is over it sees that it ends: it may not have been the shell that told so.
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

// standsIn reports whether the shell is in the directory that has that name now.
func (in *instance) standsIn(dir string) bool {
	now, err := os.Stat(dir)
	return err == nil && in.place != nil && os.SameFile(in.place, now)
}

// discard ends a shell that was not woken.
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
