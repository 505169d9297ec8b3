package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"toolhost.dev/host/internal/config/internal/diagnose"
)

// Format returns a configuration file in the canonical format. If the file is not valid HCL, the error names the file,
// the line and the reason.
func Format(name string, src []byte) ([]byte, error) {
	if at := nestedHCL(src, name); at != nil {
		return nil, &Error{Diags: hcl.Diagnostics{tooDeep(*at)}, Files: diagnose.Files{name: src}}
	}
	_, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, &Error{Diags: diags, Files: diagnose.Files{name: src}}
	}
	return hclwrite.Format(src), nil
}
