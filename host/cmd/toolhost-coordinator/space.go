package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/logger"
	"github.com/nats-io/nats-server/v2/server"
)

// minFree is the free space in bytes that a coordinator needs to start.
const minFree = 2 << 20

// checkSpace returns an error if the disk of the store is full.
func checkSpace(store string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(store, &st); err != nil {
		return fmt.Errorf("the free space of %s cannot be read: %w", store, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < minFree { //nolint:unconvert // the type depends on the system
		return fmt.Errorf("the disk of %s is full: %d KiB are free, and %d KiB are needed. Free space there; the node then restarts the coordinator", store, free>>10, minFree>>10)
	}
	return nil
}

// spaceLog is the log of the server. It detects messages about a full disk. If a write has failed because the disk was
// full, the server does not accept that record any more, even when the disk has space again. The server reports this
// only in its log.
type spaceLog struct {
	*logger.Logger
	full chan string // receives the first message about a full disk
}

// newSpaceLog creates the log of a server according to the server's options, and installs it.
func newSpaceLog(srv *server.Server, opts *server.Options) *spaceLog {
	file := logger.NewFileLogger(opts.LogFile, opts.Logtime, false, false, true)
	if err := file.SetSizeLimit(opts.LogSizeLimit); err != nil {
		file.Warnf("the size of this file is not limited: %v", err)
	}
	out := &spaceLog{Logger: file, full: make(chan string, 1)}
	srv.SetLoggerV2(out, false, false, false)
	return out
}

func (l *spaceLog) note(format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if !strings.Contains(text, syscall.ENOSPC.Error()) && !strings.Contains(text, syscall.EDQUOT.Error()) {
		return
	}
	select {
	case l.full <- text:
	default: // an earlier message is already in the channel
	}
}

// Fatalf implements server.Logger. It prints the error, because the node that started this process shows its output.
func (l *spaceLog) Fatalf(format string, v ...any) {
	fmt.Fprintf(os.Stderr, "toolhost-coordinator: "+format+"\n", v...)
	l.Logger.Fatalf(format, v...)
}

// Warnf implements server.Logger.
func (l *spaceLog) Warnf(format string, v ...any) {
	l.note(format, v)
	l.Logger.Warnf(format, v...)
}

// Errorf implements server.Logger.
func (l *spaceLog) Errorf(format string, v ...any) {
	l.note(format, v)
	l.Logger.Errorf(format, v...)
}
