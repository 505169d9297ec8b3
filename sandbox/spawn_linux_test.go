package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"toolhost.dev/sandbox/confine"
	"toolhost.dev/sandbox/execgate"
)

// BenchmarkSpawn measures how long a shell needs to run a program with the gate and without the gate. The shells run
// alternately, so that other load affects both shells. The metric "ratio" is the quotient of the medians.
func BenchmarkSpawn(b *testing.B) {
	launcher, _ := build(b)
	kernel := Probe(launcher, "")
	if err := kernel.Gate(Namespaces{}); err != nil || !kernel.Namespaces {
		b.Skip(err, kernel.NoNamespaces)
	}
	const each = 20
	shell := func(gated bool) func() time.Duration {
		cmd := exec.Command("/bin/bash", "-c", `while read -r n; do for ((i=0;i<n;i++)); do /bin/true; done; echo; done`)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		running, err := (Namespaces{}).Wrap(cmd, launcher, confine.Policy{
			Run: system, Read: append([]string{"/proc"}, systemFiles...), Devices: devices, StartProcesses: true, ABI: kernel.ABI, Gate: gated,
		})
		if err != nil {
			b.Fatal(err)
		}
		gate := new(execgate.Gate)
		if _, err := running(cmd.Start(), func(l *os.File) { gate.Serve(l, execgate.Options{PID: cmd.Process.Pid, Key: "key"}) }); err != nil {
			b.Fatal(err)
		}
		call := gate.Begin(b.Context(), "key", "", nil)
		out := bufio.NewReader(stdout)
		b.Cleanup(func() {
			call.End()
			_ = in.Close()
			_ = cmd.Wait()
		})
		return func() time.Duration {
			began := time.Now()
			_, err := fmt.Fprintln(in, each)
			if err == nil {
				_, err = out.ReadString('\n')
			}
			if err != nil {
				b.Fatal(err)
			}
			return time.Since(began) / each
		}
	}
	with, without := shell(true), shell(false)
	var a, o []time.Duration
	for b.Loop() {
		a, o = append(a, with()), append(o, without())
	}
	slices.Sort(a)
	slices.Sort(o)
	gated, plain := a[len(a)/2], o[len(o)/2]
	b.ReportMetric(float64(gated.Microseconds()), "gated-µs")
	b.ReportMetric(float64(plain.Microseconds()), "plain-µs")
	b.ReportMetric(float64(gated)/float64(plain), "ratio")
}
