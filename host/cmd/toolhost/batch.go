package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
)

// batchLine is one request of a batch.
type batchLine struct {
	ID        json.RawMessage `json:"id"`
	Command   *string         `json:"command"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Workspace string          `json:"workspace"`
	Session   string          `json:"session"`
}

func newBatch(s *settings) *cobra.Command {
	var ordered bool
	c := &cobra.Command{
		Use:   "batch",
		Short: "Run a stream of requests: JSON Lines in, JSON Lines out",
		Long: `Read requests from standard input, one JSON object a line: {"id","command"} or
{"id","name","arguments"}, each with an optional "workspace" and "session". Write a
result line for each, with its id, as it ends. A call starts as soon as its line is read.
Calls that are safe beside others run in parallel; any other runs alone and in order.`,
		Example: `  printf '%s\n' '{"id":1,"command":"read go.mod"}' '{"id":2,"name":"glob","arguments":{"pattern":"*.go"}}' | toolhost batch`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := s.open(c)
			if err != nil {
				return err
			}
			b := &batch{host: h, settings: s, ordered: ordered, out: bufio.NewWriter(os.Stdout)}
			err = b.run(c.Context(), os.Stdin)
			return errors.Join(err, h.Close())
		},
	}
	c.Flags().BoolVar(&ordered, "ordered", false, "write the results in the order of the requests")
	return c
}

type batch struct {
	host     *host.Host
	settings *settings
	ordered  bool

	mu  sync.Mutex
	out *bufio.Writer
	err error // of writing
}

// maxBatchLine bounds one request line, in bytes.
const maxBatchLine = 64 << 20

// maxInFlight bounds the requests that were read and not yet answered.
const maxInFlight = 1024

func (b *batch) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReaderSize(in, 64<<10)
	slots := make(chan struct{}, maxInFlight)
	previous := make(chan struct{})
	close(previous)
	var wg sync.WaitGroup
	for n := 1; b.writeErr() == nil && ctx.Err() == nil; n++ {
		line, err := readLine(lines)
		if len(bytes.TrimSpace(line)) > 0 {
			slots <- struct{}{}
			answer := b.begin(n, line, errors.Is(err, errLongLine))
			turn := previous
			next := make(chan struct{})
			previous = next
			wg.Go(func() {
				defer func() { <-slots }()
				defer close(next)
				text := answer(ctx)
				if b.ordered {
					<-turn
				}
				if b.write(text) != nil {
					cancel() // nobody reads: stop what runs
				}
			})
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLongLine) {
			wg.Wait()
			return fmt.Errorf("the requests cannot be read: %w", err)
		}
	}
	wg.Wait()
	if err := b.writeErr(); err != nil {
		return fmt.Errorf("the results cannot be written: %w", err)
	}
	return ctx.Err()
}

// begin takes a line up to its place in the session's line, and gives what carries
// it out and makes its result line.
func (b *batch) begin(n int, line []byte, tooLong bool) func(ctx context.Context) []byte {
	var r batchLine
	fail := func(format string, a ...any) func(context.Context) []byte {
		res := tool.Failed(tool.Errorf(tool.InvalidArguments, "Line %d: "+format, append([]any{n}, a...)...).From(tool.SourceHost))
		return func(context.Context) []byte { return resultLine(r.ID, res) }
	}
	if tooLong {
		return fail("it is longer than %d bytes. Write long content to a file and name the file.", maxBatchLine)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return fail("it is not a request: %v. Send one JSON object a line: {\"id\":1,\"command\":\"…\"}.", err)
	}
	if r.Command == nil && r.Name == "" || r.Command != nil && r.Name != "" {
		return fail("a request has either a command or a name with arguments.")
	}
	req := b.settings.request()
	req.Name, req.Arguments, req.Workspace = r.Name, r.Arguments, r.Workspace
	if r.Command != nil {
		req.Command = *r.Command
	}
	if r.Session != "" {
		req.Session = r.Session
	}
	pending := b.host.Begin(req, nil)
	return func(ctx context.Context) []byte { return resultLine(r.ID, pending.Run(ctx)) }
}

// resultLine is a result with the request's id first.
func resultLine(id json.RawMessage, res *host.Result) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	var body bytes.Buffer
	if err := printJSON(&body, res); err != nil {
		body.Reset()
		_ = printJSON(&body, tool.Failed(tool.Errorf(tool.Internal, "The result cannot be written as JSON: %w.", err).From(tool.SourceHost))) // text only
	}
	return fmt.Appendf(nil, `{"id":%s,%s`, id, body.Bytes()[1:])
}

func (b *batch) write(line []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		_, b.err = b.out.Write(line)
	}
	if b.err == nil {
		b.err = b.out.Flush()
	}
	return b.err
}

func (b *batch) writeErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

var errLongLine = errors.New("line too long")

// readLine reads a line of any length up to maxBatchLine; the rest of a longer one is
// skipped.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxBatchLine {
			long = true
			line = line[:min(len(line), 64)]
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			return []byte("…"), errLongLine
		}
		return line, err
	}
}
