// Package grammar parses source text with tree-sitter's grammars. Each grammar is a WebAssembly module that contains
// tree-sitter and cannot access the host. Therefore a text that crashes the parser only causes an error. The directory
// build contains the sources of the modules.
package grammar

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"toolhost.dev/plugins/grep/workers"
)

//go:embed wasm/*.wasm.gz
var modules embed.FS

// MaxText is the maximum length of a text in bytes.
const MaxText = 2 << 20

const (
	pageSize = 64 << 10
	// maxMemory is the maximum memory of one parse in bytes.
	maxMemory = 192 << 20
	// keepMemory is the maximum memory in bytes of a parser instance that is reused. Larger instances are closed,
	// because the memory of a WebAssembly instance never shrinks.
	keepMemory = 24 << 20
)

var (
	// ErrEffort is the error if the parser exceeds its limit of steps or time.
	ErrEffort = errors.New("grammar: parsing the text exceeds the time limit")
	// ErrTooLarge is the error if the text is longer than MaxText, or if parsing needs too much memory.
	ErrTooLarge = errors.New("grammar: the text is too large to be parsed")
)

// Set is the set of all grammars. It compiles a grammar when it is first used. A Set is safe for concurrent use.
type Set struct {
	runtime func() (wazero.Runtime, error)
	turns   chan struct{} // limits the number of parses that run at the same time

	mu        sync.Mutex
	closed    bool
	languages map[string]*language
}

// NewSet returns a set. It allocates little memory before the first parse.
func NewSet() *Set {
	return &Set{turns: make(chan struct{}, workers.Number()), languages: make(map[string]*language),
		runtime: sync.OnceValues(newRuntime)}
}

// This variable caches the compiled grammars for the whole process, because compiling a grammar takes longer than most
// parses.
var compiled = wazero.NewCompilationCache()

func newRuntime() (wazero.Runtime, error) {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx,
		wazero.NewRuntimeConfig().WithMemoryLimitPages(maxMemory/pageSize).WithCompilationCache(compiled))
	stop := api.GoFunc(func(ctx context.Context, stack []uint64) {
		stack[0] = 0
		if e, ok := ctx.Value(effortKey{}).(*effort); ok && !e.goesOn(ctx) {
			stack[0] = 1
		}
	})
	_, err := r.NewHostModuleBuilder("host").NewFunctionBuilder().
		WithGoFunction(stop, nil, []api.ValueType{api.ValueTypeI32}).Export("stop").Instantiate(ctx)
	return r, err
}

// effort limits the steps and the time of a parse. The parser counts its own steps, whose number does not depend on
// the load of the machine. The time limit is also necessary, because single steps are slow for some texts.
type effort struct {
	left int
	end  time.Time
}

type effortKey struct{}

// The parser calls the host function "stop" every hundred steps. For each byte of normal text, the parser needs less
// than 0.01 of these calls and less than a microsecond.
const (
	leastEffort, effortPerByte = 1_000, 0.05
	leastTime, timePerByte     = 3 * time.Second, 10 * time.Microsecond
)

func newEffort(text []byte) *effort {
	n := len(text)
	return &effort{
		left: leastEffort + int(effortPerByte*float64(n)),
		end:  time.Now().Add(leastTime + time.Duration(n)*timePerByte),
	}
}

func (e *effort) goesOn(ctx context.Context) bool {
	e.left--
	return e.left > 0 && ctx.Err() == nil && time.Now().Before(e.end)
}

// Close waits for running parses and frees the memory of the set.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	used := len(s.languages) > 0
	s.mu.Unlock()
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	defer func() {
		for range cap(s.turns) {
			<-s.turns
		}
	}()
	if used {
		if r, err := s.runtime(); err == nil {
			_ = r.Close(context.Background())
		}
	}
}

// language is a compiled grammar.
type language struct {
	once            sync.Once
	err             error
	module          wazero.CompiledModule
	symbols, fields []string

	mu   sync.Mutex
	idle []*parser
}

// parser is an instance of a grammar's WebAssembly module.
type parser struct {
	module       api.Module
	alloc, parse api.Function
	nodes        api.Function
}

// Parse parses a text with the grammar of the named language. It passes the tree to the callback "use". The tree is
// invalid after the callback returns. The error is the error of ctx, [ErrEffort], [ErrTooLarge], or an error of the
// grammar.
func (s *Set) Parse(ctx context.Context, name string, text []byte, use func(*Tree)) error {
	if len(text) > MaxText {
		return ErrTooLarge
	}
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l, err := s.language(name)
	if err != nil {
		return err
	}
	p, err := s.take(l)
	if err != nil {
		return err
	}
	t, err := p.run(ctx, l, text)
	if err != nil {
		_ = p.module.Close(context.Background())
		return err
	}
	use(t)
	if p.module.Memory().Size() > keepMemory {
		return p.module.Close(context.Background())
	}
	l.mu.Lock()
	l.idle = append(l.idle, p)
	l.mu.Unlock()
	return nil
}

var errClosed = errors.New("grammar: the set is closed")

func (s *Set) language(name string) (*language, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	l := s.languages[name]
	if l == nil {
		l = &language{}
		s.languages[name] = l
	}
	s.mu.Unlock()
	l.once.Do(func() { l.err = s.compile(l, name) })
	return l, l.err
}

func (s *Set) compile(l *language, name string) error {
	packed, err := modules.ReadFile("wasm/" + name + ".wasm.gz")
	if err != nil {
		return fmt.Errorf("grammar: no grammar for %s: %w", name, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	r, err := s.runtime()
	if err != nil {
		return err
	}
	if l.module, err = r.CompileModule(context.Background(), wasm); err != nil {
		return err
	}
	p, err := s.take(l)
	if err != nil {
		return err
	}
	if l.symbols, err = p.names("symbol_name"); err == nil {
		l.fields, err = p.names("field_name")
	}
	l.idle = append(l.idle, p)
	return err
}

// take returns an idle instance of the grammar, or creates a new one.
func (s *Set) take(l *language) (*parser, error) {
	l.mu.Lock()
	if n := len(l.idle); n > 0 {
		p := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.mu.Unlock()
		return p, nil
	}
	l.mu.Unlock()
	r, err := s.runtime()
	if err != nil {
		return nil, err
	}
	m, err := r.InstantiateModule(context.Background(), l.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if err != nil {
		return nil, err
	}
	return &parser{module: m, alloc: m.ExportedFunction("text_new"), parse: m.ExportedFunction("parse"),
		nodes: m.ExportedFunction("nodes_at")}, nil
}

func (p *parser) run(ctx context.Context, l *language, text []byte) (*Tree, error) {
	ctx = context.WithValue(ctx, effortKey{}, newEffort(text))
	at, err := p.alloc.Call(ctx, uint64(len(text)))
	if err != nil {
		return nil, err
	}
	if at[0] == 0 || !p.module.Memory().Write(api.DecodeU32(at[0]), text) {
		return nil, ErrTooLarge
	}
	n, err := p.parse.Call(ctx)
	if err != nil {
		if p.module.Memory().Size() > maxMemory/2 { // if the memory is exhausted, the parser ends with a trap
			return nil, ErrTooLarge
		}
		return nil, fmt.Errorf("grammar: the parser failed: %w", err)
	}
	switch api.DecodeI32(n[0]) {
	case -1:
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, ErrEffort
	case -2:
		return nil, ErrTooLarge
	}
	if at, err = p.nodes.Call(ctx); err != nil {
		return nil, err
	}
	raw, ok := p.module.Memory().Read(api.DecodeU32(at[0]), api.DecodeU32(n[0])*nodeSize)
	if !ok {
		return nil, ErrTooLarge
	}
	return &Tree{Text: text, l: l, raw: raw}, nil
}

// names calls a function of the WebAssembly module that returns a list of names.
func (p *parser) names(function string) ([]string, error) {
	var out []string
	f := p.module.ExportedFunction(function)
	for i := uint64(0); ; i++ {
		at, err := f.Call(context.Background(), i)
		if err != nil {
			return nil, err
		}
		if at[0] == 0 {
			return out, nil
		}
		var name []byte
		for a := api.DecodeU32(at[0]); ; a++ {
			b, ok := p.module.Memory().ReadByte(a)
			if !ok || b == 0 {
				break
			}
			name = append(name, b)
		}
		out = append(out, string(name))
	}
}
