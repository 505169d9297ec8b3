package execgate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are the structures and requests of seccomp_unotify(2). Package unix does not define them.
type (
	notification struct {
		id         uint64
		pid, flags uint32
		number     int32
		arch       uint32
		pointer    uint64
		args       [6]uint64
	}
	response struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
)

const (
	requestReceive = 0xc0502100
	requestSend    = 0xc0182101
	requestValid   = 0x40082102
	requestFlags   = 0x40082104
	// flagContinue lets the kernel perform the system call.
	flagContinue = 1
	// flagSyncWake makes the kernel wake the other process on the same processor. The kernel supports the flag since
	// Linux 6.6.
	flagSyncWake = 1
)

// Options describes a plugin's process.
type Options struct {
	Plugin string
	// Key identifies the process for [Gate.Begin].
	Key string
	// PID is the id of the plugin's process. The first execution of this process is the start of the plugin.
	PID int
	// Judge decides on all programs. If it is nil, the judges of calls decide.
	Judge Judge
	// Trusted is a program that is always allowed. Commands call tools through this program. Trusted can be nil.
	Trusted os.FileInfo
	// Own is the token of programs that the plugin runs for itself. Empty means that it has none.
	Own string
	// Listed sets the fields Preloads and Ancestors of each execution. Lists of programs need these fields.
	Listed bool
	// Failed is called if the gate can no longer judge. All later executions fail.
	Failed func(error)
}

// process serves the executions of one plugin process.
type process struct {
	Options
	gate    *Gate
	fd      int
	file    *os.File
	started atomic.Bool
	family  family
	lineage lineage
	strays  strays
	asked   chan struct{}  // contains one element for each open permission request
	slow    chan struct{}  // contains one element for each slow judgement
	running sync.WaitGroup // waits for the open permission requests and the readers
	ended   chan error     // receives the error of the last reader, or nil
}

// maxSlow is the maximum number of concurrent slow judgements of a plugin. Beyond this number, other programs must
// wait.
const maxSlow = 16

// maxAsked is the maximum number of executions of a plugin that wait for an answer. Further executions are denied.
const maxAsked = 32

// Serve starts to judge executions and returns immediately. When no process uses the filter any longer, the listener is
// closed.
func (g *Gate) Serve(listener *os.File, o Options) {
	p := &process{
		Options: o, gate: g, fd: int(listener.Fd()), file: listener, family: family{plugin: o.PID},
		asked: make(chan struct{}, maxAsked), slow: make(chan struct{}, maxSlow), ended: make(chan error, 1),
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), requestFlags, flagSyncWake) // ignore the error: older kernels are only slower
	p.running.Add(1)
	go p.read()
	go p.run()
}

// run waits until all processes have ended or the gate fails.
func (p *process) run() {
	err := <-p.ended
	if err == nil {
		p.running.Wait() // wait, because goroutines still use the descriptor, whose number can be reused
	}
	_ = p.file.Close() // closing the listener makes all waiting and later executions fail
	p.strays.flush(p.gate, p.Plugin)
	p.gate.forget(p.Key)
	if err != nil {
		p.log("the programs of a plugin can no longer be judged; none is executed", "why", err)
		if p.Failed != nil {
			p.Failed(err)
		}
	}
}

func (p *process) log(message string, args ...any) {
	if p.gate.Log != nil {
		p.gate.Log.Error(message, append([]any{"plugin", p.Plugin}, args...)...)
	}
}

// valid reports whether the process still waits in the system call. If not, its id can belong to another process.
func (p *process) valid(id uint64) bool {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), requestValid, uintptr(unsafe.Pointer(&id)))
	return errno == 0
}

// answer lets an execution continue if errno is 0. Otherwise the execution fails with errno.
func (p *process) answer(id uint64, errno unix.Errno) {
	r := response{id: id, errno: -int32(errno)}
	if errno == 0 {
		r.flags = flagContinue
	}
	// Ignore the error, because it means that the process was killed.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), requestSend, uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(&r)
}

// examined contains the data about an execution that is being handled.
type examined struct {
	id   uint64
	e    *Execution // nil until the execution is read
	call *Call
	own  bool
}

// handle decides on one execution. A panic refuses only this execution.
func (p *process) handle(m *memory, n *notification) {
	x := &examined{id: n.id}
	defer p.recovered(x)
	if int(n.pid) == p.PID && !p.started.Swap(true) { // always allow the launcher to execute the plugin
		p.answer(n.id, 0)
		return
	}
	files := &processFiles{pid: int(n.pid), valid: func() bool { return p.valid(n.id) }}
	defer files.close()
	e, token, known, errno := p.inspect(m, n)
	switch {
	case !p.valid(n.id):
		return
	case errno != 0:
		p.answer(n.id, errno)
		return
	}
	for each := e; each != nil; each = each.Interpreter {
		each.Files = files
	}
	x.e = e
	x.call, x.own = p.attribute(&known, token)
	v, judge := p.judge(e, x.call, x.own)
	switch {
	case v.Effect != Ask:
		p.finish(x, &v)
	case x.call == nil || x.call.ctx.Err() != nil:
		v.Effect, v.Answered = Deny, "declined"
		v.Reason = fmt.Sprintf("%s was not executed, because %s requires the answer of a person, and only a running call can ask a person. Run the program before its call ends", e.Path, v.Rule)
		p.finish(x, &v)
	default:
		p.ask(x, judge, v)
	}
}

// recovered refuses an execution if its judgement panicked. The caller must defer it.
func (p *process) recovered(x *examined) {
	r := recover()
	if r == nil {
		return
	}
	p.log("judging a program failed; it is not executed", "why", r, "stack", string(debug.Stack()))
	if x.e == nil {
		p.answer(x.id, unix.EACCES)
		return
	}
	p.finish(x, &Verdict{Effect: Deny, Rule: "internal error", Reason: fmt.Sprintf("%s was not executed, because the host failed to judge it (internal error: %v). Report this with the stack in the log of the host, and use another command", x.e.Path, r)})
}

// judge decides on an execution. The argument "call" can be nil.
func (p *process) judge(e *Execution, call *Call, own bool) (Verdict, Judge) {
	var judge Judge
	switch {
	case p.trusts(e):
	case p.Judge != nil:
		judge = p.Judge
	case call != nil && !own:
		judge = call.judge
	case !own || !shell(e):
		judge = p.gate.judgeOutside(p.Key)
	}
	if judge == nil {
		return Verdict{Effect: Allow}, nil
	}
	return judge.Judge(e), judge
}

func (p *process) trusts(e *Execution) bool {
	if p.Trusted == nil {
		return false
	}
	st, ok := p.Trusted.Sys().(*syscall.Stat_t)
	return ok && st.Dev == e.Device && st.Ino == e.Inode
}

// shells lists programs that need no judgement of their own. Every program that they execute is judged later.
var shells = []string{"bash", "sh", "dash"}

// shell reports whether a program is a shell.
func shell(e *Execution) bool {
	return slices.Contains(shells, filepath.Base(e.Path)) && e.Interpreter == nil
}

// finish records an execution and answers it.
func (p *process) finish(x *examined, v *Verdict) {
	p.record(x, v)
	if v.Effect != Allow {
		p.answer(x.id, unix.EACCES)
		return
	}
	if p.Listed {
		p.lineage.executed(x.e)
	}
	p.answer(x.id, 0)
}

// record records an execution. A program that belongs to the plugin itself is recorded only if it is denied.
func (p *process) record(x *examined, v *Verdict) {
	v.Pending = nil
	if (!x.own || v.Effect != Allow) && (x.call == nil || !x.call.add(x.e, v)) {
		p.strays.add(p.gate, p.Plugin, x.e, v)
	}
}

// ask asks a person without blocking other executions. The permission request ends when the call or the process ends.
func (p *process) ask(x *examined, judge Judge, v Verdict) {
	select {
	case p.asked <- struct{}{}:
	default:
		v.Effect, v.Reason = Deny, fmt.Sprintf("%s was not executed, because %d programs already wait for an answer. Answer the permission requests, or run fewer programs at the same time", x.e.Path, maxAsked)
		p.finish(x, &v)
		return
	}
	ctx, cancel := context.WithCancel(x.call.ctx)
	p.running.Add(2)
	go p.watch(ctx, cancel, x.id)
	go func() {
		defer p.running.Done()
		defer func() { <-p.asked }()
		defer cancel()
		defer p.recovered(x)
		v := judge.Ask(ctx, x.e, v)
		ended := ctx.Err() != nil
		cancel()
		if ended && v.Effect != Allow && v.Reason == "" {
			v.Reason = x.e.Path + " was not executed, because the call or the process ended before the answer"
		}
		if v.Effect == Allow {
			p.finish(x, &v)
			return
		}
		v.Effect = Deny
		p.record(x, &v)
		p.hold(x)
		p.answer(x.id, unix.EACCES)
	}()
}

// maxHeld limits the time in which a tool ends the processes of a canceled call.
const maxHeld = 5 * time.Second

// hold waits until the tool of a canceled call has ended the process. Otherwise a script would go on behind the program
// that was not executed. If the call is not canceled, hold does nothing.
func (p *process) hold(x *examined) {
	if x.call.ctx.Err() == nil {
		return
	}
	late := time.NewTimer(maxHeld)
	defer late.Stop()
	tick := time.NewTicker(alivePeriod)
	defer tick.Stop()
	for p.valid(x.id) {
		select {
		case <-x.call.over:
			return
		case <-late.C:
			return
		case <-tick.C:
		}
	}
}

// alivePeriod is the interval between two checks of a process that waits for an answer.
const alivePeriod = 100 * time.Millisecond

// watch cancels a permission request if the process was killed.
func (p *process) watch(ctx context.Context, cancel func(), id uint64) {
	defer p.running.Done()
	tick := time.NewTicker(alivePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !p.valid(id) {
				cancel()
				return
			}
		}
	}
}

// maxLoader is the number of leading arguments in which the name of git is searched. A dynamic linker can run git after
// its own options.
const maxLoader = 8

// inspect reads the execution that a stopped process requests. The result is only valid if the process still waits
// afterwards. A nonzero errno is the error with which the execution must fail.
func (p *process) inspect(m *memory, n *notification) (e *Execution, token string, at position, errno unix.Errno) {
	dirfd, path, argv, envp, flags := int32(unix.AT_FDCWD), n.args[0], n.args[1], n.args[2], uint64(0)
	if n.number == unix.SYS_EXECVEAT {
		dirfd, path, argv, envp, flags = int32(n.args[0]), n.args[1], n.args[2], n.args[3], n.args[4]
	}
	thread := int(n.pid)
	m.pid = thread
	e = &Execution{thread: thread}
	var first []byte
	if e.Asked, first, errno = m.begin(path, argv); errno != 0 {
		return nil, "", at, errno
	}
	if e.Argv, errno = m.argv(argv, first); errno != 0 {
		return nil, "", at, errno
	}
	var known bool
	if at, known = p.family.find(thread); !known {
		return nil, "", at, unix.EAGAIN
	}
	e.PID = at.pid
	isGit := strings.Contains(e.Asked, "git") || slices.ContainsFunc(e.Argv[:min(len(e.Argv), maxLoader)],
		func(a string) bool { return strings.Contains(a, "git") })
	if isGit {
		e.Before, _ = os.Readlink(procPath(thread, "exe")) // ignore the error: an empty path means that the file is unknown
		e.BeforeArgs = argsOf(thread)
	}
	if at.call == nil || p.Listed || isGit {
		env, errno := m.environment(envp)
		if errno != 0 {
			return nil, "", at, errno
		}
		token, e.WorkTree, e.Preloads, e.GitSettings, e.GitDir = env.token, env.workTree, env.preloads,
			env.gitSettings, env.gitDir
	}
	e.Dir = dirOf(thread)
	fd, errno := file(thread, int(dirfd), e.Asked, e.Dir, flags)
	if errno != 0 {
		return nil, "", at, errno
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, "", at, number(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return nil, "", at, unix.EACCES
	}
	e.Path, e.Device, e.Inode = pathOf(fd), st.Dev, st.Ino
	if p.Listed {
		e.Ancestors = p.lineage.executedBy(&at)
	}
	if e.Asked == "" {
		e.Asked = e.Path
	}
	return e, token, at, interpret(e, fd, &st)
}

// attribute returns the call to which an execution belongs. The result "own" reports that the plugin starts a program
// for itself, such as the shell for the next command.
func (p *process) attribute(at *position, token string) (call *Call, own bool) {
	if at.call != nil {
		if at.call == ofPlugin {
			return nil, true
		}
		return at.call, false
	}
	if token != "" {
		if c := p.gate.byToken(token, p.Key); c != nil {
			p.family.learn(at, c)
			return c, false
		}
	}
	c := p.gate.single(p.Key)
	if c == nil || c.token != "" {
		if p.family.starts(at) {
			// A command can also set this value. Therefore the value counts only for processes that the plugin itself
			// starts.
			if p.Own != "" && token == p.Own {
				p.family.learn(at, ofPlugin)
			}
			return nil, true
		}
	}
	if c != nil {
		p.family.learn(at, c)
	}
	return c, false
}

// ofPlugin is the pseudo call of programs that a plugin runs for itself.
var ofPlugin = new(Call)
