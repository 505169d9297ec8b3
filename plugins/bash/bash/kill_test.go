package bash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// This map contains commands that print "ready" and do not end. Their processes are hard to find or to kill.
var stubborn = map[string]string{
	"child":             `echo ready; sleep 1000`,
	"shell":             `echo ready; while :; do :; done`,
	"background":        `sleep 1000 & sleep 1000 & echo ready; wait`,
	"pipeline":          `echo ready; sleep 1000 | sleep 1001 | cat`,
	"ignores TERM":      `trap '' TERM; echo ready; while :; do sleep 1000; done`,
	"child ignores":     `sh -c 'trap "" TERM HUP INT; echo ready; while :; do sleep 1000; done'`,
	"stopped":           `sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$`,
	"monitor":           `set -m; sleep 1000 & sleep 1001 & echo ready; wait`,
	"setsid":            `setsid sleep 1000 & echo ready; sleep 1000`,
	"setsid ignores":    `setsid sh -c 'trap "" TERM; while :; do sleep 1; done' & echo ready; wait`,
	"double fork":       `(setsid sh -c 'sleep 1000 & sleep 1001 &' &) ; echo ready; sleep 1000`,
	"closed streams":    `setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo ready; sleep 1000`,
	"nohup":             `nohup sleep 1000 >/dev/null 2>&1 & disown; echo ready; sleep 1000`,
	"no environment":    `setsid env -i /bin/sleep 1000 & echo ready; sleep 1000`,
	"orphan without it": `(env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 1000 & /usr/bin/setsid /bin/sleep 1001 &' &); echo ready; sleep 1000`,
	"exec":              `echo ready; exec sleep 1000`,
	"exec setsid":       `echo ready; exec setsid -w sleep 1000`,
	"coproc":            `echo ready; coproc sleep 1000; wait`,
	"substitution":      `echo ready; sleep 1000 > >(sleep 1001) & x=$(sleep 1002)`,
	"xargs":             `echo ready; printf '%s\n' 1000 1001 | xargs -P2 -n1 sleep`,
	"forks on":          `echo ready; f() { sleep 0.001; setsid bash -c "$(declare -f f); f" & }; f; wait; sleep 1000`,
	"yes":               `echo ready; yes`,
}

// grown contains the numbers of sleeping or printing processes of the commands above that do not start exactly one. It
// is -1 if they are not found: without the environment of the command, or stopped before they run sleep.
var grown = map[string]int{
	"shell": 0, "stopped": -1, "background": 2, "pipeline": 2, "monitor": 2, "setsid": 2, "double fork": 3, "closed streams": 2, "nohup": 2, "no environment": -1, "orphan without it": -1, "substitution": 3, "xargs": 2,
}

var sleeper = regexp.MustCompile(`^\d+ \S "(/bin/)?(sleep|yes)(\\x00|")`)

// sleepers returns the number of processes that run sleep or yes.
func sleepers() (n int) {
	for _, p := range ours() {
		if sleeper.MatchString(p) {
			n++
		}
	}
	return n
}

// TestTimeoutKillsAll checks that a timeout kills all processes of a command. The deadline passes when the command has
// started them. Only a command whose processes are not found waits for a timeout of its own.
func TestTimeoutKillsAll(t *testing.T) { eachWay(t, timeoutKillsAll) }

func timeoutKillsAll(t *testing.T, h *host) {
	for name, command := range stubborn {
		t.Run(name, func(t *testing.T) {
			s := h.session()
			s.t = t
			s.ok("x=before")
			ctx, expire := context.WithCancelCause(t.Context())
			count, known := grown[name]
			in, want := args{Command: "x=after; cd /; " + command, Timeout: 30_000}, "killed with everything"
			switch {
			case !known:
				count = 1
			case count < 0:
				in.Timeout, want = 1000, "after 1s and was killed with everything"
			}
			p := &peer{seen: make(chan struct{}, 1000)}
			go func() {
				for range p.seen { // also after the end, because yes prints on
					if count >= 0 && ctx.Err() == nil {
						for sleepers() < count && t.Context().Err() == nil {
							time.Sleep(time.Millisecond)
						}
						expire(context.DeadlineExceeded)
					}
				}
			}()
			a := s.callPeer(ctx, in, p)
			noneNow(h)
			if !errors.Is(a.Error, &tool.Error{Kind: tool.Timeout}) || !a.TimedOut {
				t.Fatalf("error %v, timed_out %v", a.Error, a.TimedOut)
			}
			if !strings.Contains(a.Error.Message, want) || count >= 0 && ctx.Err() == nil {
				t.Errorf("message: %.300s", a.Error.Message)
			}
			if !strings.HasPrefix(a.Stdout, "ready\n") || !strings.Contains(a.Error.Message, "ready\n") {
				t.Errorf("partial output is not there: %.100q, %.300s", a.Stdout, a.Error.Message)
			}
			if a.ExitCode <= 128 || a.Signal == "" {
				t.Errorf("exit status %d, signal %q", a.ExitCode, a.Signal)
			}
			if got := s.ok("echo $x; pwd"); got != "before\n"+s.roots[0].Path+"\n" {
				t.Errorf("the session is not as before: %q", got)
			}
		})
	}
}

// noneNow fails the test if any process of a command exists. It ignores shells that wait for a command. It also ignores
// killed processes that the kernel has not yet removed. Some of these have no command line any more. The others end as
// soon as the kernel gives them processor time.
func noneNow(h *host) {
	h.t.Helper()
	idle := h.idle()
	left := slices.DeleteFunc(ours(), func(p string) bool {
		pid, _, _ := strings.Cut(p, " ")
		return strings.HasSuffix(p, ` ""`) || slices.Contains(idle, atoi(pid)) || killed(atoi(pid))
	})
	if len(left) > 0 {
		h.t.Errorf("left after the call returned: %s", strings.Join(left, "; "))
	}
}

// killed reports whether a process has ended, or will end as soon as it runs, because it received SIGKILL.
func killed(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		name, mask, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if pending, _ := strconv.ParseUint(mask, 16, 64); (name == "SigPnd" || name == "ShdPnd") && pending&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return err != nil
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

func TestCancelKillsAll(t *testing.T) { eachWay(t, cancelKillsAll) }

func cancelKillsAll(t *testing.T, h *host) {
	why := errors.New("the user pressed escape")
	for name, command := range stubborn {
		t.Run(name, func(t *testing.T) {
			s := h.session()
			s.t = t
			ctx, cancel := context.WithCancelCause(t.Context())
			p := &peer{seen: make(chan struct{}, 1000)}
			go func() {
				<-p.seen // "ready"
				cancel(why)
			}()
			a := s.callPeer(ctx, args{Command: command}, p)
			noneNow(h)
			if !errors.Is(a.Error, &tool.Error{Kind: tool.Canceled}) || a.TimedOut {
				t.Fatalf("error %v, timed_out %v", a.Error, a.TimedOut)
			}
			for _, want := range []string{"canceled", why.Error(), "killed", "ready\n"} {
				if !strings.Contains(a.Error.Message, want) {
					t.Errorf("no %q in the message: %.300s", want, a.Error.Message)
				}
			}
			if a.SessionState != nil || a.Result.Cwd != "" {
				t.Error("a canceled command changed the session")
			}
		})
	}
}

func TestHostsDeadlineIsATimeout(t *testing.T) {
	h := newHost(t)
	s := h.session()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	a := s.call(ctx, args{Command: "sleep 1000"})
	noneNow(h)
	if !errors.Is(a.Error, &tool.Error{Kind: tool.Timeout}) || !a.TimedOut {
		t.Fatalf("error %v, timed_out %v", a.Error, a.TimedOut)
	}
}

func TestTermIsSentBeforeKill(t *testing.T) {
	s := newHost(t).session()
	a := s.call(t.Context(), args{Command: `sh -c 'trap "echo cleaned up; exit" TERM; echo ready; while :; do sleep 0.01; done'`, Timeout: 1000})
	if a.Stdout != "ready\ncleaned up\n" || a.Signal != "SIGTERM" {
		t.Errorf("stdout %q, signal %q", a.Stdout, a.Signal)
	}
}

// This map contains commands that leave a process running. Each command writes the id of that process to the file pid.
var daemons = map[string]string{
	"background":     `sleep 1000 & echo $! > pid`,
	"nohup":          `nohup sleep 1000 >/dev/null 2>&1 & echo $! > pid`,
	"setsid":         `setsid sleep 1000 & echo $! > pid`,
	"double fork":    `(setsid sh -c 'sleep 1000 & echo $! > pid' &); while [ ! -s pid ]; do sleep 0.01; done`,
	"no environment": `(env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 1000 & echo $! > pid' &); while [ ! -s pid ]; do sleep 0.01; done`,
	"chatty":         `yes & echo $! > pid`,
	"chatty stderr":  `yes >&2 & echo $! > pid`,
	"talks later":    `(sleep 0.3; echo late; echo late >&2; sleep 1000) & echo $! > pid`,
	"fails":          `sleep 1000 & echo $! > pid; exit 3`,
	"exec":           `sleep 1000 & echo $! > pid; exec true`,
}

func TestDaemonsLiveUntilClose(t *testing.T) {
	for name, command := range daemons {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			s := h.session()
			a := s.run(command)
			if a.TimedOut || a.ExitCode != 0 && a.ExitCode != 3 {
				t.Fatal(a.text())
			}
			// The pause is long enough for the process to notice a broken or full pipe.
			if got := s.ok(`sleep 0.5; kill -0 $(cat pid) && ps -o stat= -p $(cat pid)`); got == "" || strings.ContainsAny(got, "ZTX") {
				t.Errorf("the daemon is not alive: %q", got)
			}
			if name != "fails" && name != "exec" && name != "no environment" {
				if pids, _ := a.Metadata["background_pids"].([]int); len(pids) == 0 {
					t.Errorf("metadata %v does not tell of it", a.Metadata)
				}
			}
			h.close()
			noneNow(h)
		})
	}
}

func TestKillLeavesOthersAlone(t *testing.T) {
	h := newHost(t)
	one, two := h.session(), h.session()
	one.ok(`sleep 1000 & setsid sleep 1001 & echo $! > pid`)
	p := &peer{seen: make(chan struct{}, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *answer)
	go func() { done <- two.callPeer(ctx, args{Command: `echo ready; setsid sleep 1002; echo not reached`}, p) }()
	<-p.seen
	if a := one.call(t.Context(), args{Command: "sleep 1000", Timeout: 100}); !a.TimedOut {
		t.Error(a.text())
	}
	if got := one.ok(`kill -0 $(cat pid) && echo alive`); got != "alive\n" {
		t.Error("the timeout of one call killed what another left running")
	}
	select {
	case a := <-done:
		t.Errorf("the timeout of one call ended another: %s", a.text())
	default:
	}
	cancel()
	<-done
}

func TestCloseEndsRunningCalls(t *testing.T) {
	def := Plugin()
	p, err := sdk.New(def)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, plugin: p, close: def.Close}
	s := h.session()
	pr := &peer{seen: make(chan struct{}, 10)}
	done := make(chan *answer)
	go func() {
		done <- s.callPeer(t.Context(), args{Command: `setsid sleep 1000 & echo ready; sleep 1000`}, pr)
	}()
	<-pr.seen
	h.close()
	if a := <-done; a.Signal != "SIGKILL" {
		t.Errorf("%s %+v", a.text(), a.data)
	}
	noneLeft(t)
	if a := s.run("echo hi"); !errors.Is(a.Error, &tool.Error{Kind: tool.Unavailable}) {
		t.Errorf("a call after Close: %s", a.text())
	}
	h.close() // the second call of close must have no effect
}

func TestNoDescriptorIsLeft(t *testing.T) {
	s := newHost(t).session()
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	s.ok("true")
	s.h.idle()
	before := count()
	for i := range 20 {
		s.run(fmt.Sprintf("echo %d; seq 20000; exit %d", i, i%2))
		stdin := "text"
		s.call(t.Context(), args{Command: "cat", Stdin: &stdin})
		s.call(t.Context(), args{Command: "sleep 1000", Timeout: 1})
	}
	s.h.idle()
	after := count()
	for end := time.Now().Add(5 * time.Second); after > before && time.Now().Before(end); after = count() {
		time.Sleep(time.Millisecond) // wait until the files are closed, because the result can arrive earlier
	}
	if after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
