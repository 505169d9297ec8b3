package config

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// Render returns the text of a configuration with the given plugins and without the bundled plugins. For each plugin,
// it writes the name, the path, the arguments, the field and the additional readable paths. The plugins can only read
// in the roots.
func Render(plugins []Plugin) []byte {
	f := hclwrite.NewEmptyFile()
	f.Body().SetAttributeValue("bundled", cty.False)
	for _, p := range plugins {
		b := f.Body().AppendNewBlock("plugin", []string{p.Name}).Body()
		b.SetAttributeValue("path", cty.StringVal(p.Path))
		if len(p.Args) > 0 {
			b.SetAttributeValue("args", textList(p.Args))
		}
		if p.Field != "" {
			b.SetAttributeValue("field", cty.StringVal(p.Field))
		}
		s := b.AppendNewBlock("sandbox", nil).Body()
		s.SetAttributeValue("roots", cty.StringVal("read-only"))
		if len(p.Confinement.Read) > 0 {
			s.SetAttributeValue("read", textList(p.Confinement.Read))
		}
	}
	return f.Bytes()
}

func textList(all []string) cty.Value {
	var out []cty.Value
	for _, s := range all {
		out = append(out, cty.StringVal(s))
	}
	return cty.ListVal(out)
}
