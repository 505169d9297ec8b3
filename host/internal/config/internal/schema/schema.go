// Package schema describes the possible content of a configuration: kinds of blocks and their attributes.
package schema

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Block describes a kind of block, or the top level of a file.
type Block struct {
	Name string
	// Path consists of the names of all enclosing blocks and of this block, joined with dots. The top level has an
	// empty path.
	Path   string
	Labels []string
	// Repeats reports whether the block can appear more than once.
	Repeats bool
	// Free means that the block can have any content, because the host does not know its schema.
	Free       bool
	Doc        string
	Attributes []Attribute
	Blocks     []*Block
}

// Attribute describes an attribute of a block.
type Attribute struct {
	Name     string
	Required bool
	// Type is a type in HCL's notation, or "duration" or "size".
	Type string
	// Default is an HCL value, or a text in parentheses. Empty means that the attribute has no default.
	Default string
	Doc     string
}

// Content returns the schema in the form that HCL's decoder expects.
func (b *Block) Content() *hcl.BodySchema {
	out := &hcl.BodySchema{}
	for _, a := range b.Attributes {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, inner := range b.Blocks {
		out.Blocks = append(out.Blocks, hcl.BlockHeaderSchema{Type: inner.Name, LabelNames: inner.Labels})
	}
	return out
}

// Block returns the schema of the inner block with the given name, or nil.
func (b *Block) Block(name string) *Block {
	i := slices.IndexFunc(b.Blocks, func(i *Block) bool { return i.Name == name })
	if i < 0 {
		return nil
	}
	return b.Blocks[i]
}
