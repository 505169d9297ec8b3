package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

const (
	swapCallers = 64
	swapCount   = 100
	calmTime    = 5 * time.Second
	killTime    = 10 * time.Second
)

// swaps measures calls while a plugin's binary is replaced, and while plugins are killed at random. It compares these
// calls with undisturbed calls.
func swaps(ctx context.Context, bin string) error {
	l, err := newSwapLoad(ctx, bin)
	if err != nil {
		return err
	}
	l.one(ctx, new(measured), 1, 0)
	l.close() // after this first load, the process already holds the resources that it creates only once
	before := countProcess()
	if l, err = newSwapLoad(ctx, bin); err != nil {
		return err
	}
	defer l.close()
	calm, err := l.during(ctx, func() error {
		time.Sleep(calmTime)
		return nil
	})
	if err != nil {
		return err
	}
	began := time.Now()
	swapped, err := l.during(ctx, func() error {
		for n := range swapCount {
			if err := l.swap(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	kills := 0
	killed, err := l.during(ctx, func() error {
		for end := time.Now().Add(killTime); time.Now().Before(end); time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond) { //nolint:gosec // chance
			for _, p := range l.host.Status().Plugins {
				if p.PID > 0 && rand.IntN(2) == 0 && syscall.Kill(p.PID, syscall.SIGKILL) == nil { //nolint:gosec // chance
					kills++
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.close()
	after := countProcess()
	for range 100 {
		if after = countProcess(); after == before {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	worst := ratio(quantile(swapped.took, 1), quantile(calm.took, 0.99))
	fmt.Fprintf(out, "%d callers\tcalls\tfailed\tp50\tp99\tworst\t\n", swapCallers)
	for _, row := range []struct {
		name string
		m    measured
	}{{"nothing happens", calm}, {fmt.Sprintf("%d swaps in %.1f s", swapCount, took.Seconds()), swapped}, {fmt.Sprintf("%d kills", kills), killed}} {
		fmt.Fprintf(out, "%s\t%d\t%d\t%s\t%s\t%s\t\n", row.name, len(row.m.took), row.m.failed, millis(quantile(row.m.took, 0.5)), millis(quantile(row.m.took, 0.99)), millis(quantile(row.m.took, 1)))
	}
	fmt.Fprintf(out, "failed under swaps\t%d\tof them lost\t%d\tmust be 0\t%s\n", swapped.failed, swapped.lost, verdict(swapped.failed == 0 && swapped.lost == 0))
	fmt.Fprintf(out, "worst under swaps / p99 without\t%.1f\t\t\tat most 10\t%s\n", worst, verdict(worst < 10))
	fmt.Fprintf(out, "reads that failed under kills (must be 0)\t%d\twrites that were refused as unavailable\t%d\t\t%s\n", killed.failed-killed.unavailable, killed.unavailable, verdict(killed.failed == killed.unavailable && killed.lost == 0))
	fmt.Fprintf(out, "left behind\tbefore: %s\tafter: %s\t\t\t%s\n", before, after, verdict(before == after))
	return out.Flush()
}

// swapLoad is a host whose plugins can be replaced, together with the calls that are made to it.
type swapLoad struct {
	host    *host.Host
	dir     string
	content string
	plugin  []byte // content of the binary of the plugin "read"
	files   int
	once    sync.Once
}

func newSwapLoad(ctx context.Context, bin string) (*swapLoad, error) {
	dir, err := os.MkdirTemp("", "toolhost-swap")
	if err != nil {
		return nil, err
	}
	l := &swapLoad{dir: dir, content: strings.Repeat("a line of the file\n", 50)}
	ok := false
	defer func() {
		if !ok {
			l.close()
		}
	}()
	for _, d := range []string{"bin", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o750); err != nil {
			return nil, err
		}
	}
	if l.plugin, err = os.ReadFile(filepath.Join(bin, "plugins", "read")); err != nil {
		return nil, err
	}
	edit, err := os.ReadFile(filepath.Join(bin, "plugins", "edit"))
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("bundled = false\nplugin \"read\" {\n  path = %q\n}\nplugin \"edit\" {\n  path = %q\n}\n", filepath.Join(dir, "bin", "read"), filepath.Join(dir, "bin", "edit"))
	for name, b := range map[string][]byte{"bin/read": l.plugin, "bin/edit": edit, "toolhost.hcl": []byte(config), "work/file.txt": []byte(l.content)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o700); err != nil { //nolint:gosec // binaries
			return nil, err
		}
	}
	err = l.start(ctx, bin)
	ok = err == nil
	return l, err
}

func (l *swapLoad) start(ctx context.Context, bin string) (err error) {
	l.host, err = host.New(ctx, host.Options{
		Config: filepath.Join(l.dir, "toolhost.hcl"), BundledDir: filepath.Join(bin, "plugins"),
		Workspace: filepath.Join(l.dir, "work"), StateDir: filepath.Join(l.dir, "state"), Live: true,
	})
	return err
}

// restart starts the host again with a changed configuration.
func (l *swapLoad) restart(ctx context.Context, bin string) error {
	if err := l.host.Close(); err != nil {
		return err
	}
	return l.start(ctx, bin)
}

func (l *swapLoad) close() {
	l.once.Do(func() {
		if l.host != nil {
			_ = l.host.Close() // ignore the error, because it does not affect the measurement
		}
		_ = os.RemoveAll(l.dir)
	})
}

// swap replaces the binary and waits until the host uses the new binary.
func (l *swapLoad) swap(ctx context.Context, n int) error {
	path := filepath.Join(l.dir, "bin", "read")
	if err := os.WriteFile(path+".new", fmt.Appendf(l.plugin[:len(l.plugin):len(l.plugin)], "%d", n), 0o700); err != nil { //nolint:gosec // a binary
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	r, err := l.host.Reload(ctx, host.ReloadOptions{Plugins: []string{"read"}})
	if err == nil && r.Refused() {
		err = errors.New(r.Plugins[0].Refused)
	}
	return err
}

// measured contains the results of a measurement.
type measured struct {
	took []time.Duration
	// failed counts failed calls. unavailable counts failed writes with an error of the kind Unavailable. lost counts
	// calls with a wrong result.
	failed, unavailable, lost int
}

// during makes calls without pauses while the function f runs. Seven of eight calls read a file, and one writes a
// file.
func (l *swapLoad) during(ctx context.Context, f func() error) (all measured, err error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range swapCallers {
		first := l.files
		l.files += 1 << 20
		wg.Go(func() {
			var m measured
			for n := first; ; n++ {
				select {
				case <-done:
					mu.Lock()
					defer mu.Unlock()
					all.took = append(all.took, m.took...)
					all.failed, all.unavailable, all.lost = all.failed+m.failed, all.unavailable+m.unavailable, all.lost+m.lost
					return
				default:
					l.one(ctx, &m, i, n)
				}
			}
		})
	}
	err = f()
	close(done)
	wg.Wait()
	return all, err
}

func (l *swapLoad) one(ctx context.Context, m *measured, caller, n int) {
	req := host.Request{Command: "read file.txt", Session: fmt.Sprint("caller", caller)}
	name := fmt.Sprintf("written%d.txt", n)
	writes := caller%8 == 0
	if writes {
		req.Command = "write --file_path " + name + " --content x"
	}
	began := time.Now()
	res := l.host.Run(ctx, req, nil)
	m.took = append(m.took, time.Since(began))
	switch {
	case !res.Success():
		m.failed++
		if writes && res.Error.Kind == tool.Unavailable {
			m.unavailable++
		}
	case !writes && strings.Count(res.Output, "a line of the file") != 50:
		m.lost++
	case writes:
		if err := os.Remove(filepath.Join(l.dir, "work", name)); err != nil {
			m.lost++ // the call succeeded, but the file does not exist
		}
	}
}

// countProcess returns a text with the number of resources of each kind that this process holds.
func countProcess() string {
	fds, _ := os.ReadDir("/proc/self/fd")
	children := 0
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, f := range tasks {
		b, _ := os.ReadFile(f) // ignore the error: it means that the thread has ended in the meantime
		children += len(strings.Fields(string(b)))
	}
	return fmt.Sprintf("%d processes, %d descriptors, %d goroutines", children, len(fds), runtime.NumGoroutine())
}
