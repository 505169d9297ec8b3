package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc. It is the same on all architectures of Linux.
const tick = time.Second / 100

// processorTime is the processor time that a process and its descendants have used.
type processorTime struct {
	own         time.Duration // of the process itself
	descendants time.Duration
}

// usedBy returns the processor time that a process and its running descendants have used.
func usedBy(pid int) (processorTime, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return processorTime{}, err
	}
	times := make(map[int]time.Duration)
	children := make(map[int][]int)
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the process ended
		}
		id, err := strconv.Atoi(strings.Split(name, "/")[2])
		if err != nil {
			return processorTime{}, err
		}
		// The name of the program is in parentheses and can contain spaces. The name is followed by the state and the
		// parent.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		var n [3]int
		for i, field := range []int{1, 11, 12} { // parent, user time, system time
			if n[i], err = strconv.Atoi(f[field]); err != nil {
				return processorTime{}, fmt.Errorf("%s: %w", name, err)
			}
		}
		children[n[0]] = append(children[n[0]], id)
		times[id] = time.Duration(n[1]+n[2]) * tick
	}
	out := processorTime{own: times[pid]}
	for rest := children[pid]; len(rest) > 0; rest = rest[1:] {
		out.descendants += times[rest[0]]
		rest = append(rest, children[rest[0]]...)
	}
	return out, nil
}
