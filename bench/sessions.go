package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"
)

// manySessions is the number of sessions, and sessionCallers is the number of concurrent callers that use these
// sessions.
const manySessions, sessionCallers = 1000, 16

// sessionLoad measures reads while a command runs in the same session. It also measures reads in 1 session and in 1000
// sessions with the same number of callers, and the cost of 1000 idle shells.
func sessionLoad(ctx context.Context, bin string) error {
	h, _, done, err := sampleHost(ctx, bin)
	if err != nil {
		return err
	}
	defer done()
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	if err := besideCommand(ctx, out, h); err != nil {
		return err
	}
	if err := acrossSessions(ctx, out, h); err != nil {
		return err
	}
	return idleShells(ctx, out, h)
}

func runIn(ctx context.Context, h *host.Host, session, command string) error {
	if res := h.Run(ctx, host.Request{Session: session, Command: command}, nil); !res.Success() {
		return res.Error
	}
	return nil
}

// besideCommand measures a read while a command runs in its session.
func besideCommand(ctx context.Context, out *tabwriter.Writer, h *host.Host) error {
	read := func(session string) call {
		return func() error { return runIn(ctx, h, session, "read sample.txt --limit 2000") }
	}
	ended := make(chan error, 1)
	if err := runIn(ctx, h, "busy", "true"); err != nil {
		return err
	}
	go func() { ended <- runIn(ctx, h, "busy", "sleep 10") }()
	time.Sleep(500 * time.Millisecond)
	d, err := contest(10, 100, read("alone"), read("busy"))
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the command ended during the measurement: %w", err)
	default:
	}
	alone, beside := median(d[0]), median(d[1])
	fmt.Fprintf(out, "read 10 KB, p50\tbeside sleep 10 in its session %s\talone %s\tratio %.2f\tat most 2.00\t%s\n", micros(beside), micros(alone), ratio(beside, alone), verdict(ratio(beside, alone) <= 2))
	return <-ended
}

// acrossSessions compares the latency of reads in one session with the latency of reads in many sessions.
func acrossSessions(ctx context.Context, out *tabwriter.Writer, h *host.Host) error {
	one, many := new(spread), &spread{sessions: manySessions}
	for range 5 { // measure alternately, because the speed of the machine changes
		for _, s := range []*spread{one, many} {
			if err := s.load(ctx, h, 2*time.Second); err != nil {
				return err
			}
		}
	}
	p1, p2 := quantile(one.times, 0.99), quantile(many.times, 0.99)
	fmt.Fprintf(out, "read 10 KB, p99, %d callers\t%d sessions %s\t1 session %s\tratio %.2f\tat most 3.00\t%s\n", sessionCallers, manySessions, millis(p2), millis(p1), ratio(p2, p1), verdict(ratio(p2, p1) <= 3))
	return fairness(ctx, out, h)
}

// spread distributes calls over a number of sessions. If the number is 0, all calls use one session.
type spread struct {
	sessions int
	next     atomic.Int64
	mu       sync.Mutex
	times    []time.Duration
}

func (s *spread) load(ctx context.Context, h *host.Host, during time.Duration) error {
	began := time.Now()
	_, err := rate(sessionCallers, during, func() error {
		session := "one"
		if s.sessions > 0 {
			session = fmt.Sprint("many", int(s.next.Add(1))%s.sessions)
		}
		start := time.Now()
		err := runIn(ctx, h, session, "read sample.txt --limit 2000")
		took := time.Since(start)
		if time.Since(began) > during/4 { // calls before this time are ignored, because some of them start sessions
			s.mu.Lock()
			s.times = append(s.times, took)
			s.mu.Unlock()
		}
		return err
	})
	return err
}

// fairness runs one caller in each of many sessions and compares the session with the fewest calls to the average.
func fairness(ctx context.Context, out *tabwriter.Writer, h *host.Host) error {
	counts := make([]int, manySessions)
	var failed atomic.Pointer[error]
	end := time.Now().Add(10 * time.Second)
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() {
			for time.Now().Before(end) && failed.Load() == nil {
				if err := runIn(ctx, h, fmt.Sprint("many", i), "read sample.txt --limit 2000"); err != nil {
					failed.Store(&err)
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	share := float64(slices.Min(counts)) / (float64(total) / manySessions)
	fmt.Fprintf(out, "read 10 KB, %d sessions at once\tfewest calls of a session %d\taverage %.1f\tshare %.2f\tat least 0.50\t%s\n", manySessions, slices.Min(counts), float64(total)/manySessions, share, verdict(share >= 0.5))
	return nil
}

// idleShells runs a command in each of many sessions. Then it counts the open descriptors of the plugin.
func idleShells(ctx context.Context, out *tabwriter.Writer, h *host.Host) error {
	var next atomic.Int64
	var mu sync.Mutex
	var times []time.Duration
	var wg sync.WaitGroup
	var failed error
	for range sessionCallers {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > manySessions {
					return
				}
				began := time.Now()
				err := runIn(ctx, h, fmt.Sprint("shell", i), "export X=1")
				mu.Lock()
				times = append(times, time.Since(began))
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	for _, p := range h.Status().Plugins {
		if p.Name != "bash" {
			continue
		}
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		if err != nil {
			return err
		}
		per := float64(len(fds)) / manySessions
		fmt.Fprintf(out, "bash, first command of %d sessions\tp50 %s, p99 %s\tdescriptors of the plugin %d\tper session %.2f\tat most 2.00\t%s\n", manySessions, millis(median(times)), millis(quantile(times, 0.99)), len(fds), per, verdict(per <= 2))
	}
	return nil
}
