package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"toolhost.dev/sdk/lines"
	"toolhost.dev/sdk/toolrpc"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// hostVersion is the version that the plugin receives. The checks ignore the plugin's min_host_version.
const hostVersion = "0.0.0-conformance"

// shaken is the result of waiting for the handshake line.
type shaken struct {
	before []string // first lines before the handshake line, shortened
	more   int      // number of further lines before the handshake line
	line   string   // handshake line; empty if the plugin printed none
	why    string   // reason for a missing handshake line
}

// process is a running plugin.
type process struct {
	cmd      *exec.Cmd
	lifeline *os.File
	sockets  string
	shaken   shaken
	exited   chan struct{}
	stderr   lastWords
	conn     *grpc.ClientConn
	rpc      toolpb.PluginServiceClient
	stop     sync.Once
}

// launch starts the binary and waits for its handshake line. If launch returns no error, the caller must end the
// process, even if the handshake line is missing.
func (s *suite) launch(ctx context.Context, cookie bool) (*process, error) {
	sockets, err := os.MkdirTemp(socketsIn(), "cf")
	if err != nil {
		return nil, err
	}
	if sockets, err = filepath.EvalSymlinks(sockets); err != nil {
		return nil, err
	}
	p := &process{sockets: sockets, exited: make(chan struct{})}
	cmd := exec.Command(s.path, s.opts.Args...) //nolint:gosec // running what the author names is the purpose
	cmd.Dir = "/"
	cmd.Env = append(basicEnv(), s.opts.Env...)
	if cookie {
		cmd.Env = append(cmd.Env, toolrpc.Handshake.MagicCookieKey+"="+toolrpc.Handshake.MagicCookieValue,
			"PLUGIN_PROTOCOL_VERSIONS="+strconv.Itoa(toolrpc.ProtocolVersion), toolrpc.SocketDirEnv+"="+sockets,
			toolrpc.LifelineEnv+"=3")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // a child process of the plugin can keep standard error open
	cmd.Stderr = &p.stderr
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.ExtraFiles = outW, []*os.File{lifeR}
	p.cmd, p.lifeline = cmd, lifeW
	err = cmd.Start()
	_, _ = outW.Close(), lifeR.Close()
	if err != nil {
		_, _ = outR.Close(), lifeW.Close()
		_ = os.RemoveAll(sockets)
		return nil, fmt.Errorf("the program cannot be run: %w", err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	lines := make(chan string)
	go func() {
		defer outR.Close() //nolint:errcheck // only read
		readLines(outR, lines)
	}()
	p.shaken = p.awaitHandshake(ctx, lines, min(s.opts.Patience, startTimeout))
	go func() { // read all output, because a full pipe would block the plugin
		for range lines { // discard the remaining lines
		}
	}()
	return p, nil
}

const (
	// maxLine limits the stored part of a line on standard output, in bytes. It is enough for a handshake line with a
	// certificate.
	maxLine = 16 << 10
	// maxBefore is the maximum number of lines before the handshake line that are kept.
	maxBefore = 7
)

// readLines sends the lines of r to the channel "out" and then closes out. It shortens lines to maxLine. If the last
// line has no line ending, readLines omits it.
func readLines(r io.Reader, out chan<- string) {
	defer close(out)
	in := lines.NewReader(r, maxLine)
	for {
		line, err := in.Read()
		if tooLong := (*lines.TooLongError)(nil); errors.As(err, &tooLong) {
			err = tooLong.Err
		}
		if err != nil {
			return
		}
		out <- strings.TrimRight(string(line), "\r")
	}
}

// socketsIn returns a directory for sockets. Its path is short enough for a socket address. An empty result means
// the default directory.
func socketsIn() string {
	if len(os.TempDir()) > 60 {
		return "/tmp"
	}
	return ""
}

// startTimeout is the default start timeout of hosts.
const startTimeout = 10 * time.Second

func (p *process) awaitHandshake(ctx context.Context, lines <-chan string, timeout time.Duration) (sh shaken) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				sh.why = "the plugin closed its standard output without a handshake line"
				select {
				case <-p.exited:
					sh.why = "the plugin exited without a handshake line: " + p.ended()
				case <-time.After(time.Second):
				}
				return sh
			}
			if looksLikeHandshake(line) {
				sh.line = line
				return sh
			}
			if len(sh.before) < maxBefore {
				sh.before = append(sh.before, line)
			} else {
				sh.more++
			}
		case <-timer.C:
			sh.why = fmt.Sprintf("the plugin printed no handshake line within %s%s", timeout, p.said())
			return sh
		case <-ctx.Done():
			sh.why = context.Cause(ctx).Error()
			return sh
		}
	}
}

func looksLikeHandshake(line string) bool {
	parts := strings.Split(line, "|")
	if len(parts) < 5 {
		return false
	}
	_, err := strconv.Atoi(parts[0])
	return err == nil
}

// address returns the socket address in the handshake line. If the address is invalid, it returns an error.
func (p *process) address() (string, error) {
	parts := strings.Split(p.shaken.line, "|")
	if len(parts) < 5 {
		return "", errors.New(p.shaken.why)
	}
	network, addr := parts[2], parts[3]
	if network != "unix" || filepath.Dir(filepath.Clean(addr)) != p.sockets {
		return "", fmt.Errorf("the plugin announces %s %q, which is not in the directory that PLUGIN_UNIX_SOCKET_DIR names", network, addr)
	}
	if st, err := os.Lstat(addr); err != nil || st.Mode().Type() != os.ModeSocket {
		return "", fmt.Errorf("the plugin announces %q, which is not a socket; listen first, then announce", addr)
	}
	return addr, nil
}

// connect connects to the plugin's socket.
func (p *process) connect(ctx context.Context) error {
	addr, err := p.address()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix:"+addr,
		append(toolrpc.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return err
	}
	p.conn, p.rpc = conn, toolpb.NewPluginServiceClient(conn)
	go p.readStdio(context.WithoutCancel(ctx)) // ends when the connection is closed
	conn.Connect()
	for state := conn.GetState(); state.String() != "READY"; state = conn.GetState() {
		if state.String() == "TRANSIENT_FAILURE" {
			return fmt.Errorf("no gRPC server answers at the announced socket%s", p.said())
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no gRPC connection is possible at the announced socket%s", p.said())
		}
	}
	return nil
}

// readStdio reads what a plugin that uses go-plugin prints after the handshake. go-plugin sends the output over this
// service instead of the standard streams, and the plugin would block if nobody read it. Other plugins do not serve it.
func (p *process) readStdio(ctx context.Context) {
	stream, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio",
		grpc.WaitForReady(true))
	if err != nil || stream.SendMsg(new(emptypb.Empty)) != nil || stream.CloseSend() != nil {
		return
	}
	for chunk := new(emptypb.Empty); stream.RecvMsg(chunk) == nil; chunk = new(emptypb.Empty) {
		_, _ = p.stderr.Write(stdioData(chunk.ProtoReflect().GetUnknown())) // the error is always nil
	}
}

// stdioData returns the field "data" of a message plugin.StdioData, whose Go type is internal to go-plugin.
func stdioData(message []byte) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if number == 2 && kind == protowire.BytesType {
			data, _ := protowire.ConsumeBytes(message) // for an invalid message, data is nil
			return data
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}

// end ends the plugin as a host does. It returns the time until the plugin has ended. If the plugin had to be
// killed, ok is false.
func (p *process) end(patience time.Duration) (took time.Duration, ok bool) {
	began := time.Now()
	_ = p.lifeline.Close()
	select {
	case <-p.exited:
		ok = true
	case <-time.After(patience):
	}
	took = time.Since(began)
	p.kill()
	return took, ok
}

// kill kills the process and its process group. It can be called several times.
func (p *process) kill() {
	p.stop.Do(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
		if p.conn != nil {
			_ = p.conn.Close()
		}
		_ = p.lifeline.Close()
		_ = os.RemoveAll(p.sockets)
	})
}

func (p *process) dead() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// dying reports whether the process has ended. It waits a short time for a process that is about to end.
func (p *process) dying() bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(200 * time.Millisecond):
		return false
	}
}

// ended describes how the process ended. It must be called only after the process has ended.
func (p *process) ended() string { return p.cmd.ProcessState.String() + p.said() }

func (p *process) said() string {
	if words := p.stderr.String(); words != "" {
		return "; its standard error ends with:\n" + words
	}
	return ""
}

// lastWords is a writer that keeps the last bytes of the written text. It is safe for concurrent use.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

var _ io.Writer = (*lastWords)(nil)

func (w *lastWords) Write(b []byte) (int, error) {
	const most = 2000
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	if n := len(w.text); n > most {
		w.text = append([]byte(nil), w.text[n-most:]...)
	}
	return len(b), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(w.text)), "�")
}

// basicEnv returns the environment variables that a host passes to every plugin.
func basicEnv() []string {
	var env []string
	for _, k := range []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
		"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}
