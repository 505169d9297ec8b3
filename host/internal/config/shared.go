package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// SharedText returns the part of a configuration that all nodes of a fleet share. It removes the fleet block and the
// state directory, because these belong to one node. name is the file name in errors.
func SharedText(name string, text []byte) ([]byte, error) {
	f, err := parseText(name, text)
	if err != nil {
		return nil, err
	}
	for _, b := range f.Body().Blocks() {
		switch b.Type() {
		case "fleet":
			f.Body().RemoveBlock(b)
		case "host":
			b.Body().RemoveAttribute("state_dir")
		}
	}
	return trimmed(f.Bytes()), nil
}

// trimmed removes empty lines at the beginning and at the end of a text.
func trimmed(text []byte) []byte {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return text
	}
	return append(slices.Clone(text), '\n')
}

// WithOwn returns the configuration of one node: the shared text together with the fleet block and the state directory
// from the text "own". The argument "name" is the file name in errors.
func WithOwn(name string, shared, own []byte) ([]byte, error) {
	shared, err := SharedText(name, shared)
	if err != nil {
		return nil, err
	}
	to, err := parseText(name, shared)
	if err != nil {
		return nil, err
	}
	from, err := parseText(name, own)
	if err != nil {
		return nil, fmt.Errorf("the configuration of this node: %w", err)
	}
	for _, b := range from.Body().Blocks() {
		switch b.Type() {
		case "fleet":
			to.Body().AppendNewline()
			to.Body().AppendBlock(b)
		case "host":
			dir := b.Body().GetAttribute("state_dir")
			if dir == nil {
				continue
			}
			host := to.Body().FirstMatchingBlock("host", nil)
			if host == nil {
				to.Body().AppendNewline()
				host = to.Body().AppendNewBlock("host", nil)
			}
			host.Body().SetAttributeRaw("state_dir", dir.Expr().BuildTokens(nil))
		}
	}
	return trimmed(to.Bytes()), nil
}

func parseText(name string, text []byte) (*hclwrite.File, error) {
	if strings.HasSuffix(name, ".json") {
		return nil, fmt.Errorf("%s is JSON, and nodes of a fleet exchange configurations in HCL only. Rewrite it as HCL", name)
	}
	f, diags := hclwrite.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, errors.New(diags[0].Error())
	}
	return f, nil
}
