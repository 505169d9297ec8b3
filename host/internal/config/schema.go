package config

import (
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"toolhost.dev/host/internal/config/internal/schema"
	"toolhost.dev/sandbox"
)

// Block describes a kind of block, or the top level of a file.
type Block = schema.Block

//go:embed reference.txt
var referenceText string

// documented is one entry in the reference of the configuration.
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

// backendWords lists the valid values for the sandbox backend.
func backendWords() string {
	words := sandbox.Words()
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Schema returns the schema of a configuration. Its blocks and attributes have the order of the Go structs.
var Schema = sync.OnceValue(func() *Block {
	out := &Block{Repeats: true}
	describe(out, reflect.TypeFor[preludeHCL]())
	describe(out, reflect.TypeFor[fileHCL]())
	return out
})

// describe adds the fields of a struct type to the schema of a block. The HCL decoder decodes the block into this type.
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
			b.Attributes = append(b.Attributes, schema.Attribute{Name: f.name, Required: f.kind == "", Type: d.kind, Default: d.def, Doc: d.doc})
		}
	}
}

// lookUp returns the entry in the reference for a path. All kinds of permission rules share the same entries.
func lookUp(path string) documented {
	if d, ok := documents()[path]; ok {
		return d
	}
	if parts := strings.Split(path, "."); len(parts) == 3 {
		return documents()[parts[0]+".*."+parts[2]]
	}
	return documented{}
}

// tagged describes a struct field for the HCL decoder.
type tagged struct {
	name, kind string
	repeats    bool
	is         reflect.Type // type of the block; nil for an attribute
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
