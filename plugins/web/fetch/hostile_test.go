//go:build !race

package fetch

import (
	"strings"
	"testing"
)

// TestOracleHostilePages checks pages that the converter would convert slowly or to a huge text. The tool must return
// these pages in a simpler form. Without the limits, the page "spans" needs gigabytes, and the page "brackets" needs
// hours.
func TestOracleHostilePages(t *testing.T) {
	for name, page := range map[string]string{
		"spans":    "<table><tr><td colspan=1000000 rowspan=1000000>cell</table>",
		"brackets": "<p>" + strings.Repeat("[", maxBody-3),
		"quotes":   strings.Repeat("<blockquote>", 500) + strings.Repeat("a<br>", 200000),
		"nodes":    strings.Repeat("<p>a", maxBody/4),
		"marks":    "<p>" + strings.Repeat("*_", maxBody/2-2),
		"columns":  "<table><tr>" + strings.Repeat("<td>", 20000) + strings.Repeat("<tr><td>cell", 20000) + "</table>",
	} {
		for _, format := range []string{formatMarkdown, formatText} {
			if out, _, err := convert(page, "http://a.example/", format); err != nil || len(out) > 2*maxBody {
				t.Errorf("%s: %d bytes, %v", name, len(out), err)
			}
		}
	}
}
