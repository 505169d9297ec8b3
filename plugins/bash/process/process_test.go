//go:build linux

package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func init() {
	if os.Getenv("PROCESS_TEST_FIRST_THREAD") != "" {
		runtime.LockOSThread() // TestMain must run on the first thread
	}
}

// TestMain runs the tests. In a child process, it runs one of two test programs instead of the tests. The first
// program starts a command and waits to be killed. The second program creates a keeper on the first thread.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("PROCESS_TEST_FIRST_THREAD") != "":
		launchOnFirstThread()
		return
	case os.Getenv("PROCESS_TEST_VICTIM") == "":
		os.Exit(m.Run())
	}
	k := NewKeeper()
	if err := k.Guard("/bin/bash"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	cmd := exec.Command("/bin/bash", "-c", "sleep 1001 & setsid sleep 1002 & (setsid sh -c 'sleep 1003 & sleep 1004' &) ; exec sleep 1000")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	tree, err := k.Start(cmd)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// A goroutine that ends while it is locked to a thread also ends the thread. The thread that started the command
	// must not end in this manner.
	var threads sync.WaitGroup
	for range 200 {
		threads.Go(func() {
			runtime.LockOSThread()
			time.Sleep(time.Millisecond)
		})
	}
	threads.Wait()
	select {
	case <-tree.Done():
		fmt.Println("the command died with a thread:", tree.State())
		os.Exit(1)
	default:
	}
	fmt.Println(tree.Pid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {}
}

// launchOnFirstThread starts a keeper whose goroutine first runs on the first thread.
func launchOnFirstThread() {
	reapOrphans()
	k := &Keeper{prefix: "test-", starts: make(chan func()), stopped: make(chan struct{})}
	go func() {
		guard := k.Guard("/bin/bash")
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.Env = []string{}
		_, err := k.Start(cmd)
		pids, listed := adopted()
		fmt.Println(first(), guard, err, len(pids), listed, family.childless())
		k.Close()
	}()
	k.launch()
	fmt.Println(first(), family.childless())
}

// TestNothingStartsOnTheFirstThread checks that no command is started on the first thread. Otherwise commands could
// not be distinguished from orphans, and each command would scan all processes.
func TestNothingStartsOnTheFirstThread(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCESS_TEST_FIRST_THREAD=1")
	out, err := cmd.CombinedOutput()
	if want := "false <nil> <nil> 0 <nil> true\ntrue true\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

// TestCommandsDoNotWaitForStarts checks that a command can begin and end while another command is being started.
func TestCommandsDoNotWaitForStarts(t *testing.T) {
	k := NewKeeper()
	defer k.Close()
	cmd := exec.Command("/bin/sh", "-c", "read x; exit 3")
	cmd.Env = []string{}
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	cmd.Stdin = theirs
	tree, err := k.StartIdle(cmd)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "nothing of other tests is left", func() bool {
		defer family.still()()
		return family.childless()
	})
	family.starting.Lock() // simulate a command that is being started
	ended := make(chan []int)
	go func() {
		tree.Wake()
		_ = ours.Close()
		<-tree.Done()
		ended <- tree.Alive()
	}()
	select {
	case left := <-ended:
		if len(left) > 0 || tree.State().ExitCode() != 3 {
			t.Errorf("%v %v", left, tree.State())
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits")
	}
	family.starting.Unlock()
}

func TestCommandDiesWithItsParent(t *testing.T) {
	victim := exec.Command("/proc/self/exe")
	victim.Env = append(os.Environ(), "PROCESS_TEST_VICTIM=1")
	// Start the victim in its own session. Otherwise this process would treat the orphaned guard of the victim as a
	// child that it started itself.
	victim.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := victim.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(line)
	}
	if s, err := readStat(pid); err != nil || s.sid != pid || s.group != pid {
		t.Fatalf("%+v %v: not in a session of its own", s, err)
	}
	mark := []byte(fmt.Sprintf("%s=%d-", MarkEnv, victim.Process.Pid))
	left := func() (n int) {
		for _, p := range snapshot() {
			if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid)); err == nil && bytes.Contains(env, mark) {
				n++
			}
		}
		return n
	}
	until(t, "all of it runs", func() bool { return left() >= 5 })
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	until(t, "nothing of it is left", func() bool { return left() == 0 })
	until(t, "the command ends", func() bool {
		s, err := readStat(pid)
		return err != nil || s.state == 'Z'
	})
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

func start(t *testing.T, k *Keeper, script string) (*Tree, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	cmd := exec.Command("/bin/bash", "-c", script)
	cmd.Env, cmd.Stdout = []string{"PATH=/usr/bin:/bin"}, w
	tree, err := k.Start(cmd)
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return tree, bufio.NewReader(r)
}

func readPid(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestOrphansAreReapedAsTheyEnd(t *testing.T) {
	k := NewKeeper()
	defer k.Close()
	tree, out := start(t, k, `for i in 1 2 3; do (setsid sh -c 'echo $$; read x < /dev/null; exec sleep 0.05' &); done; read x <> <(sleep 1000)`)
	for range 3 {
		pid := readPid(t, out)
		until(t, "an orphan is reaped while its command runs", func() bool {
			_, err := readStat(pid)
			return errors.Is(err, os.ErrNotExist)
		})
	}
	select {
	case <-tree.Done():
		t.Fatal("the command has ended")
	default:
	}
	tree.Kill(0)
	if left := tree.Alive(); len(left) > 0 {
		t.Error(left)
	}
}

func TestStateTellsTheEnd(t *testing.T) {
	k := NewKeeper()
	defer k.Close()
	for script, want := range map[string]string{"exit 7": "exit status 7", "kill -9 $$": "signal: killed", "true": "exit status 0"} {
		tree, _ := start(t, k, script)
		<-tree.Done()
		if tree.State() == nil || tree.State().String() != want {
			t.Errorf("%s: %v, %v", script, tree.State(), tree.Err())
		}
	}
}

func TestStartFails(t *testing.T) {
	k := NewKeeper()
	cmd := exec.Command("/nonexistent/program")
	cmd.Env = []string{}
	if _, err := k.Start(cmd); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	k.Close()
	cmd = exec.Command("/bin/true")
	cmd.Env = []string{}
	if _, err := k.Start(cmd); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestForeignChildrenAreNotTouched(t *testing.T) {
	k := NewKeeper()
	foreign := exec.Command("/bin/sh", "-c", "echo $$; read x; exit 5")
	out, _ := foreign.StdoutPipe()
	in, _ := foreign.StdinPipe()
	if err := foreign.Start(); err != nil {
		t.Fatal(err)
	}
	pid := readPid(t, bufio.NewReader(out))
	tree, ready := start(t, k, `setsid sleep 1000 & echo $!; sleep 1000`)
	readPid(t, ready)
	tree.Kill(10 * time.Millisecond)
	if _, err := readStat(pid); err != nil {
		t.Fatal("a child of other code was killed")
	}
	_ = in.Close()
	until(t, "it is a zombie", func() bool { s, err := readStat(pid); return err == nil && s.state == 'Z' })
	family.reap()
	var exit *exec.ExitError
	if err := foreign.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("its status was taken away: %v", err)
	}
	k.Close()
}

func TestCloseKeepsOtherKeepers(t *testing.T) {
	one, two := NewKeeper(), NewKeeper()
	defer two.Close()
	a, outA := start(t, one, `setsid sleep 1000 & echo $!; wait`)
	b, outB := start(t, two, `setsid sleep 1000 & echo $!; wait`)
	left, gone := readPid(t, outB), readPid(t, outA)
	one.Close()
	if _, err := readStat(gone); err == nil || len(a.Alive()) > 0 {
		t.Error("a process of the closed keeper is left")
	}
	if s, err := readStat(left); err != nil || s.state == 'Z' || len(b.Alive()) != 2 {
		t.Errorf("a process of the other keeper is gone; alive: %v", b.Alive())
	}
	select {
	case <-b.Done():
		t.Error("the other keeper's command has ended")
	default:
	}
}

func TestNamesThatLookLikeTheEnd(t *testing.T) {
	path := t.TempDir() + "/a) Z 1 (b"
	if err := os.Symlink("/bin/sleep", path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s, err := readStat(cmd.Process.Pid)
	if err != nil || s.ppid != os.Getpid() || s.state == 'Z' || s.sid != selfSession() {
		t.Errorf("%+v %v", s, err)
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
}

// TestKinOfTheLast checks that an unassigned orphan belongs to a command if no other command can have started it.
func TestKinOfTheLast(t *testing.T) {
	const none = 1 << 22 // higher than all process ids
	orphan := stat{pid: none + 3, ppid: self, group: none + 3, sid: none + 3, state: 'S', birth: 10}
	last := &Tree{pid: none + 1, mark: "x", birth: 5, since: 5, ended: true}
	for _, tc := range []struct {
		other Tree
		mine  bool
	}{
		{Tree{since: 6}, false}, {Tree{since: 6, ended: true}, false}, {Tree{since: 4}, false},
		{Tree{since: 4, ended: true}, true}, {Tree{since: 6, idle: true}, true}, {Tree{since: 6, over: true}, true},
	} {
		tc.other.pid, tc.other.mark = none+2, "y"
		c := &children{trees: map[int]*Tree{last.pid: last, tc.other.pid: &tc.other}}
		if got := len(c.kin(last, []stat{orphan})) == 1; got != tc.mine {
			t.Errorf("beside %+v: %v", &tc.other, got)
		}
	}
}
