package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format gives a file of a configuration in the usual form. The error says, with file and line,
// why it is not HCL.
func Format(name string, src []byte) ([]byte, error) {
	if at := nestedHCL(src, name); at != nil {
		return nil, &Error{diags: hcl.Diagnostics{tooDeep(*at)}, files: sources{name: src}}
	}
	_, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, &Error{diags: diags, files: sources{name: src}}
	}
	return hclwrite.Format(src), nil
}
