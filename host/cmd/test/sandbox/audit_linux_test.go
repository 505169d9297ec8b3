package sandbox

import (
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFullDiskStopsCalls checks that no tool runs while the disk with the audit log is full. When the disk has free
// space again, calls must run.
func TestFullDiskStopsCalls(t *testing.T) {
	t.Parallel()
	out := hosttest.OnSmallDisk(t, `
		echo hello >file
		toolhost run 'echo one'
		fill
		if toolhost run 'touch RAN'; then echo BAD; fi
		if toolhost run 'read file'; then echo BAD; fi
		[[ ! -e RAN ]]
		toolhost status --json >../status
		grep -q 'The audit log cannot be written.*bytes are free on the disk' ../status
		cat >../continue.hcl <<<'plugin "bash" {}
			audit { on_failure = "continue" }'
		toolhost --config ../continue.hcl run 'touch CONTINUED'
		[[ -e CONTINUED ]]
		rm ../state/filler
		toolhost run 'echo two'
		toolhost log
		mount -o remount,ro ../state
		if toolhost run 'echo three'; then echo BAD; fi
	`)
	for _, want := range []string{"0 bytes are free on the disk. Free space on the disk, or choose another directory", "read-only file system. Make the file system writable, or choose another directory"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing: %s", want, out)
		}
	}
	if strings.Contains(out, "remove this file") || strings.Contains(out, "BAD") || strings.Contains(out, "hello") || strings.Count(out, "was not run, because the audit log cannot be written: ") != 3 || !strings.Contains(out, `"command":"echo two"`) {
		t.Error(out)
	}
}

// TestDiskFillsWhileHostRuns is like TestFullDiskStopsCalls, but the disk becomes full while the host runs.
func TestDiskFillsWhileHostRuns(t *testing.T) {
	t.Parallel()
	out := hosttest.OnSmallDisk(t, `
		echo hello >file
		mkfifo ../in
		command toolhost --state ../state batch --ordered <../in >../out 2>../err &
		exec 5>../in
		n=0
		call() { n=$((n+1)); echo "{\"id\":$n,\"command\":\"$1\"}" >&5; until (($(wc -l <../out) >= n)); do sleep 0.02; done; tail -n 1 ../out; }
		call 'touch BEFORE'
		fill
		call 'touch RAN'
		call 'read file'
		rm ../state/filler
		call 'touch AFTER'
		exec 5>&-
		wait
		ls
		toolhost log
	`)
	if strings.Contains(out, "hello\"") || strings.Count(out, "was not run, because the audit log cannot be written: ") != 2 || !strings.Contains(out, "\nAFTER\nBEFORE\nfile\n") ||
		strings.Count(out, "unavailable  ") != 2 || !strings.Contains(out, `"command":"touch AFTER"`) {
		t.Error(out)
	}
}

// TestLastEntryOfAFullDisk checks a call that runs while the disk becomes full. The call must be recorded later.
func TestLastEntryOfAFullDisk(t *testing.T) {
	t.Parallel()
	out := hosttest.OnSmallDisk(t, `
		mkfifo ../in go
		command toolhost --state ../state batch --ordered <../in >../out 2>../err &
		exec 5>../in
		echo '{"id":1,"command":"cat go"}' >&5
		echo '{"id":2,"command":"touch RAN"}' >&5
		exec 6>go
		fill
		exec 6>&-
		until (($(wc -l <../out) >= 2)); do sleep 0.02; done
		[[ ! -e RAN ]]
		rm ../state/filler
		exec 5>&-
		wait
		toolhost log
	`)
	if !strings.Contains(out, "unavailable") || !strings.Contains(out, "touch RAN") || !strings.Contains(out, "cat ") {
		t.Error(out)
	}
}

// TestKilledHostOnAFullDisk kills a host while the results of its last calls are only in its journal, and fills the
// disk. Later calls must see these results, and the program must report the problem. When the disk has free space
// again, no data may be missing.
func TestKilledHostOnAFullDisk(t *testing.T) {
	t.Parallel()
	out := hosttest.OnSmallDisk(t, `
		cat >../continue.hcl <<<'plugin "bash" {}
			plugin "read" {}
			audit { on_failure = "continue" }'
		mkdir sub ../state/journal
		echo text >sub/file
		mkfifo ../in
		command toolhost --state ../state batch <../in >../out 2>/dev/null &
		exec 5>../in
		n=0
		unsaved() { find ../state/journal -name '*.[0-9]*' -size +0 | grep -q .; }
		until kill -STOP $! && unsaved; do
			kill -CONT $!
			n=$((n+1))
			echo "{\"session\":\"q\",\"command\":\"N=$n; cd $PWD/sub\"}" >&5
			until (($(wc -l <../out) >= n)); do :; done
		done
		kill -KILL $!
		wait 2>/dev/null || true
		fill
		echo "=== refused"
		if toolhost --session q run 'touch RAN'; then echo BAD; fi
		echo "=== runs"
		toolhost --config ../continue.hcl --session q run 'read file' || true
		rm ../state/filler
		echo "=== free"
		toolhost --session q run 'echo "$N ${PWD##*/}"; ls'
		! unsaved
		echo "=== want $n sub"
	`)
	_, refused, _ := strings.Cut(out, "=== refused")
	refused, runs, _ := strings.Cut(refused, "=== runs")
	runs, free, _ := strings.Cut(runs, "=== free\n")
	free, want, _ := strings.Cut(free, "=== want ")
	const why = "calls use these changes from memory, and the journal of the killed host keeps them. Free space on the disk"
	if !strings.Contains(refused, why) || !strings.Contains(refused, "bash was not run, because the audit log cannot be written") || strings.Contains(refused, "the session cannot be saved") || strings.Contains(refused, "BAD") {
		t.Errorf("refused: %s", refused)
	}
	if !strings.Contains(runs, why) || !strings.Contains(runs, "\ntext\n[The call ended, but the session cannot be saved: ") {
		t.Errorf("runs: %s", runs)
	}
	if free != want+"file\n" {
		t.Errorf("%q, wanted %q", free, want)
	}
}
