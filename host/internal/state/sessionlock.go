package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
)

const (
	// linger is the time for which a process keeps the lock after the last call. It is long enough for
	// the delayed write of the session. Calls in quick succession then lock only once.
	linger = 50 * time.Millisecond
	// maxHold is the time after which a process releases the lock between two calls, even under constant load.
	maxHold = 10 * time.Second
	// pause is the time for which a process does not lock again after maxHold. Waiting processes try at
	// shorter intervals.
	pause = 3 * maxPoll
	// firstPoll and maxPoll limit the time between two attempts to lock.
	firstPoll, maxPoll = 2 * time.Millisecond, 25 * time.Millisecond
	// quiet is the time after which a waiting call reports the holder.
	quiet = 100 * time.Millisecond
	// described is the time after which the lock file contains the command of the holder. Most calls end
	// earlier.
	described = 20 * time.Millisecond
	// retry is the time before another attempt to save a session.
	retry = time.Second
	// dying limits the time for which a caller waits until a killed holder has released its files. The
	// limit is needed because another process can get the same process id.
	dying = time.Second
	// swept is the age after which [Locks.Sweep] removes the file of a killed process.
	swept = time.Hour
)

// Locks holds the locks of one process. The methods of a nil Locks do not lock. Locks is safe for concurrent use.
type Locks struct {
	dir  string
	save func() error

	mu   sync.Mutex
	held map[string]*lock
}

// NewLocks returns locks in a directory, which is created when it is needed. The function "save" writes the changes of
// all sessions to the database, so that the next holder reads them. It is called before a lock is released.
func NewLocks(dir string, save func() error) *Locks {
	return &Locks{dir: dir, save: save, held: make(map[string]*lock)}
}

// lock is the lock of one session. Locks.mu protects its fields.
type lock struct {
	users    int
	taking   bool // whether a call is locking the file
	changed  chan struct{}
	file     *os.File // nil while the process does not hold the lock
	since    time.Time
	released time.Time // time of the last release because of maxHold
	closing  *time.Timer
	naming   *time.Timer
}

// Holder describes the process that holds a lock.
type Holder struct {
	PID     int    `json:"pid"`
	Command string `json:"command,omitempty"`
}

// String returns a description for users, such as "process 812 (bash: npm test)".
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "another process"
	case h.Command == "":
		return fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("process %d (%s)", h.PID, h.Command)
}

// Take locks a session. The caller must call release at the end of its call. The result "fresh" reports whether another
// process can have changed the session since the last lock. If it is true, the caller must read the session again. The
// function "label" describes the call for other processes. If the call has to wait for another process, Take calls the
// function "waiting" with the holder of the lock. If ctx ends, Take returns its error. Any other error means that the
// file system cannot lock files.
func (l *Locks) Take(ctx context.Context, session string, label func() string,
	waiting func(Holder)) (release func(), fresh bool, err error) {
	if l == nil {
		return func() {}, false, ctx.Err()
	}
	l.mu.Lock()
	for {
		k := l.held[session]
		if k == nil {
			k = &lock{changed: make(chan struct{})}
			l.held[session] = k
		}
		if k.file != nil && time.Since(k.since) < maxHold {
			l.join(k, label)
			l.mu.Unlock()
			return sync.OnceFunc(func() { l.leave(session, k) }), false, nil
		}
		if k.file == nil && !k.taking {
			k.taking = true
			break
		}
		changed := k.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		l.mu.Lock()
	}
	k := l.held[session]
	l.mu.Unlock()

	f, err := l.lockFile(ctx, session, k.released, waiting)

	l.mu.Lock()
	defer l.mu.Unlock()
	k.taking = false
	k.announce()
	if err != nil {
		l.drop(session, k)
		return nil, false, err
	}
	k.file, k.since = f, time.Now()
	l.join(k, label)
	return sync.OnceFunc(func() { l.leave(session, k) }), true, nil
}

// announce wakes the calls that wait in this process.
func (k *lock) announce() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// join adds a call to a held lock.
func (l *Locks) join(k *lock, label func() string) {
	k.users++
	if k.closing != nil {
		k.closing.Stop()
		k.closing = nil
	}
	if k.users == 1 {
		f := k.file
		k.naming = time.AfterFunc(described, func() { describe(f, label()) })
	}
}

// leave ends a call. The lock is released soon after the last call.
func (l *Locks) leave(session string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users > 0 || k.file == nil {
		return
	}
	k.naming.Stop()
	wait := linger
	if time.Since(k.since) >= maxHold {
		wait = 0
	}
	l.closeAfter(wait, session, k)
}

func (l *Locks) closeAfter(wait time.Duration, session string, k *lock) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		l.mu.Lock()
		current := k.closing == timer && k.users == 0
		l.mu.Unlock()
		if !current {
			return
		}
		err := l.save()
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case k.closing != timer || k.users > 0 || k.file == nil:
		case err != nil: // keep the lock: without the save, the next holder would not see the changes of the session
			l.closeAfter(retry, session, k)
		default:
			l.unlock(session, k)
		}
	})
	k.closing = timer
}

// unlock releases the lock. The caller must hold l.mu.
func (l *Locks) unlock(session string, k *lock) {
	_ = os.Remove(k.file.Name())
	_ = k.file.Close()
	k.file, k.closing = nil, nil
	if time.Since(k.since) >= maxHold { // keep the entry until the pause ends
		k.released = time.Now()
		time.AfterFunc(2*pause, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.held[session] == k {
				l.drop(session, k)
			}
		})
	}
	k.announce()
	l.drop(session, k)
}

// drop removes the entry of a lock without holder and waiting calls. The caller must hold l.mu.
func (l *Locks) drop(session string, k *lock) {
	if k.file == nil && !k.taking && time.Since(k.released) > pause {
		delete(l.held, session)
	}
}

// Close releases all locks. The caller must first save the sessions.
func (l *Locks) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for session, k := range l.held {
		if k.file != nil {
			l.unlock(session, k)
		}
	}
}

// Sweep removes the files of processes that were killed.
func (l *Locks) Sweep() {
	if l == nil {
		return
	}
	entries, _ := os.ReadDir(l.dir) // error ignored: nothing can be removed from an unreadable directory
	for _, e := range entries {
		path := filepath.Join(l.dir, e.Name())
		st, err := os.Lstat(path)
		if err != nil || !st.Mode().IsRegular() || !strings.HasSuffix(path, suffix) ||
			time.Since(st.ModTime()) < swept {
			continue
		}
		if f, err := openLock(path); err == nil && f != nil {
			_ = os.Remove(path)
			_ = f.Close()
		}
	}
}

const suffix = ".lock"

// awaitEnd waits until a killed process has released all its files. It waits at most for the duration "dying". The
// kernel releases the files one after another. Otherwise a caller of [Locks.Take] could get the session's lock while
// the journal of the killed process is still locked.
func awaitEnd(ctx context.Context, pid int) {
	ctx, cancel := context.WithTimeout(ctx, dying)
	defer cancel()
	for !ended(pid) {
		select {
		case <-time.After(firstPoll):
		case <-ctx.Done():
			return
		}
	}
}

// ended reports whether all threads of a process have ended. A process without threads has no open files.
func ended(pid int) bool {
	if pid == os.Getpid() || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil { // without /proc, wait until the parent has reaped the process
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	return strings.HasPrefix(state, "Z") && err == nil && len(threads) <= 1
}

// lockFile locks the file of a session.
func (l *Locks) lockFile(ctx context.Context, session string, released time.Time,
	waiting func(Holder)) (*os.File, error) {
	sum := sha256.Sum256([]byte(session)) // hash, because a session id can be longer than a file name
	path := filepath.Join(l.dir, hex.EncodeToString(sum[:16])+suffix)
	began, poll := time.Now(), max(firstPoll, pause-time.Since(released))
	told := false
	first := time.Since(released) > pause
	for {
		if first {
			f, err := openLock(path)
			if errors.Is(err, fs.ErrNotExist) {
				if err = os.MkdirAll(l.dir, 0o700); err == nil {
					f, err = openLock(path)
				}
			}
			if err != nil {
				return nil, fmt.Errorf("the session cannot be locked: %w", err)
			}
			if f != nil {
				if last := holder(path); last.PID != 0 { // the last holder left the file, so it was killed
					awaitEnd(ctx, last.PID)
				}
				describe(f, "")
				return f, nil
			}
			if !told && time.Since(began) >= quiet {
				told = true
				waiting(holder(path))
			}
		}
		first = true
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			if !told {
				waiting(holder(path))
			}
			return nil, ctx.Err()
		}
		poll = min(2*poll, maxPoll)
	}
}

// openLock opens and locks a file. It returns nil without an error if another process holds the lock.
func openLock(path string) (*os.File, error) {
	f, err := flock.Open(path, os.O_RDWR|os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return f, err
}

// describe writes the holder to its lock file. It ignores errors, because only people need the
// description.
func describe(f *os.File, command string) {
	b, err := json.Marshal(Holder{PID: os.Getpid(), Command: command})
	if err != nil {
		return
	}
	if _, err := f.WriteAt(append(b, '\n'), 0); err == nil {
		_ = f.Truncate(int64(len(b) + 1))
	}
}

// maxDescription limits the number of bytes that are read from a lock file.
const maxDescription = 64 << 10

// holder reads the holder from a lock file. The result is empty if the file has no description.
func holder(path string) (h Holder) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return h
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxDescription))
	if err == nil {
		_ = json.Unmarshal(b, &h) // error ignored: an invalid description means an unknown holder
	}
	return h
}
