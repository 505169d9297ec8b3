// Package schema describes the possible content of a configuration: kinds of blocks and their attributes.
package schema

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Block describes a kind of block, or the top level of a file.
type Block struct {
	Name string
	// Path contains the names of the enclosing blocks and then the name of this block, joined with dots. The top level
	// has an empty path.
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
	Name string
	// Required reports whether the block is invalid without the attribute. Needed is Required, except that the decoder
	// of HCL does not report the absence.
	Required, Needed bool
	// Type is a type in HCL's notation, or "duration" or "size".
	Type string
	// Default is an HCL value, or a text in parentheses. Empty means that the attribute has no default.
	Default string
	Doc     string
	// Rights determines how a value limits what tools can do. Order lists the words of an attribute with a fixed set of
	// words. The first one permits most.
	Rights Rights
	Order  []string
	// Host reports whether only the host uses the value, so that a change restarts no plugin. Secret reports whether no
	// output shows the value.
	Host, Secret bool
	// Path reports whether the texts of the value are paths. Command reports whether the first one can be a path.
	Path, Command bool
}

// Rights determines how the value of an attribute limits what tools can do.
type Rights int

// An attribute that is not Free limits tools. A change to a value that permits more needs an approval.
const (
	// Undecided is invalid in the table of a block.
	Undecided Rights = iota
	Free
	Higher   // a higher value permits more, and zero is no limit
	Lower    // a lower value permits more
	Ranked   // a value permits more than those after it in the order
	Longer   // each further element of a list permits more
	Shorter  // each further element of a list permits less
	Filter   // each further element of a list permits more, and no list permits everything
	Compared // package privilege compares the attribute together with others
)

// Restricts reports whether the attribute limits what tools can do, so that a change to a value that permits more needs
// an approval.
func (a *Attribute) Restricts() bool { return a.Rights > Free }

// Wider returns the values that permit more, for the reference. The most permissive word of a list comes first.
func (a *Attribute) Wider() string {
	if len(a.Order) > 0 {
		return strings.Join(slices.DeleteFunc(slices.Clone(a.Order), func(s string) bool { return s == "" }), " > ")
	}
	return map[Rights]string{Higher: "higher", Lower: "lower", Longer: "longer", Shorter: "shorter",
		Filter: "longer, or none", Compared: "yes"}[a.Rights]
}

// Falls reports whether a lower value, or a shorter list, permits more.
func (a *Attribute) Falls() bool { return a.Rights == Lower || a.Rights == Shorter }

// Content returns the schema in the form that HCL's decoder expects.
func (b *Block) Content() *hcl.BodySchema {
	out := &hcl.BodySchema{}
	for _, a := range b.Attributes {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: a.Name, Required: a.Required})
	}
	for _, inner := range b.Blocks {
		out.Blocks = append(out.Blocks, hcl.BlockHeaderSchema{Type: inner.Name, LabelNames: inner.Labels})
	}
	return out
}

// Attribute returns the attribute with the given name, or a zero value.
func (b *Block) Attribute(name string) (a Attribute) {
	if i := slices.IndexFunc(b.Attributes, func(a Attribute) bool { return a.Name == name }); i >= 0 {
		a = b.Attributes[i]
	}
	return a
}

// Block returns the schema of the inner block with the given name, or nil.
func (b *Block) Block(name string) *Block {
	i := slices.IndexFunc(b.Blocks, func(i *Block) bool { return i.Name == name })
	if i < 0 {
		return nil
	}
	return b.Blocks[i]
}
