package config

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"toolhost.dev/host/internal/sandbox"
)

// Block is what can stand in one kind of block, or in the files themselves.
type Block struct {
	Name string
	// Path from the outermost block, with dots.
	Path   string
	Labels []string
	// Repeats: there may be several.
	Repeats bool
	// Free: what stands in it is not known here.
	Free       bool
	Doc        string
	Attributes []Attribute
	Blocks     []*Block
}

// Attribute is one that can stand in a block.
type Attribute struct {
	Name     string
	Required bool
	// Type as it is written in HCL, or "duration", "size".
	Type string
	// Default is HCL, or text in parentheses; empty: there is none.
	Default string
	Doc     string
}

//go:embed reference.txt
var referenceText string

// documented is a line of the reference.
type documented struct{ kind, def, doc string }

var documents = sync.OnceValue(func() map[string]documented {
	out := make(map[string]documented)
	for line := range strings.Lines(referenceText) {
		if f := strings.SplitN(strings.TrimSpace(line), " | ", 4); len(f) == 4 {
			out[f[0]] = documented{kind: f[1], def: strings.TrimPrefix(f[2], "-"), doc: strings.ReplaceAll(f[3], "{backends}", backendWords())}
		}
	}
	return out
})

// backendWords lists the words for a backend of the sandbox.
func backendWords() string {
	words := sandbox.Words()
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Schema is all that can stand in a configuration, in the order of the code.
var Schema = sync.OnceValue(func() *Block {
	out := &Block{Repeats: true}
	describe(out, reflect.TypeFor[preludeHCL]())
	describe(out, reflect.TypeFor[fileHCL]())
	return out
})

// describe adds what a type that HCL is decoded into has.
func describe(b *Block, t reflect.Type) {
	for f := range fields(t) {
		path := strings.TrimPrefix(b.Path+"."+f.name, ".")
		switch f.kind {
		case "label":
			b.Labels = append(b.Labels, f.name)
		case "block":
			inner := &Block{Name: f.name, Path: path, Repeats: f.repeats, Doc: lookUp(path).doc}
			describe(inner, f.is)
			b.Blocks = append(b.Blocks, inner)
		case "remain":
			b.Free = b.Path != ""
		case "", "optional":
			d := lookUp(path)
			b.Attributes = append(b.Attributes, Attribute{Name: f.name, Required: f.kind == "", Type: d.kind, Default: d.def, Doc: d.doc})
		}
	}
}

// lookUp gives the line for a path; the rules of permissions share theirs.
func lookUp(path string) documented {
	if d, ok := documents()[path]; ok {
		return d
	}
	if parts := strings.Split(path, "."); len(parts) == 3 {
		return documents()[parts[0]+".*."+parts[2]]
	}
	return documented{}
}

// tagged is a field of a struct that HCL is decoded into.
type tagged struct {
	name, kind string
	repeats    bool
	is         reflect.Type // of a block
}

func fields(t reflect.Type) func(func(tagged) bool) {
	return func(yield func(tagged) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			tag, ok := f.Tag.Lookup("hcl")
			if !ok {
				continue
			}
			name, kind, _ := strings.Cut(tag, ",")
			out := tagged{name: name, kind: kind, is: f.Type}
			for out.is.Kind() == reflect.Pointer || out.is.Kind() == reflect.Slice {
				out.repeats = out.repeats || out.is.Kind() == reflect.Slice
				out.is = out.is.Elem()
			}
			if !yield(out) {
				return
			}
		}
	}
}

// content is how HCL wants to be told what can stand in a block.
func (b *Block) content() *hcl.BodySchema {
	out := &hcl.BodySchema{}
	for _, a := range b.Attributes {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, inner := range b.Blocks {
		out.Blocks = append(out.Blocks, hcl.BlockHeaderSchema{Type: inner.Name, LabelNames: inner.Labels})
	}
	return out
}

// Block gives the kind of block of a name in it; nil: there is none.
func (b *Block) Block(name string) *Block {
	i := slices.IndexFunc(b.Blocks, func(i *Block) bool { return i.Name == name })
	if i < 0 {
		return nil
	}
	return b.Blocks[i]
}
