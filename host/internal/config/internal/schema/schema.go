// Package schema describes what a configuration may contain: kinds of blocks and their attributes.
package schema

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Block is a kind of block, or the top level of a file.
type Block struct {
	Name string
	// Path from the outermost block, with dots. It is empty for the top level.
	Path   string
	Labels []string
	// Repeats reports whether there may be several.
	Repeats bool
	// Free reports whether the block's content is not described here.
	Free       bool
	Doc        string
	Attributes []Attribute
	Blocks     []*Block
}

// Attribute is an attribute of a block.
type Attribute struct {
	Name     string
	Required bool
	// Type in HCL's notation, or "duration" or "size".
	Type string
	// Default is an HCL value, or text in parentheses. It is empty if there is none.
	Default string
	Doc     string
}

// Content returns the block in the form that HCL decodes by.
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

// Block returns the kind of inner block with a name, or nil.
func (b *Block) Block(name string) *Block {
	i := slices.IndexFunc(b.Blocks, func(i *Block) bool { return i.Name == name })
	if i < 0 {
		return nil
	}
	return b.Blocks[i]
}
