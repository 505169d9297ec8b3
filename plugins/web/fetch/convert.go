package fetch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// convert converts an HTML page to the requested format. Links become absolute. If the page marks its main content and
// the content is not empty, the result contains only the main content. Scripts, styles and navigation are omitted.
func convert(text, address, format string) (out, title string, err error) {
	defer func() {
		if r := recover(); r != nil { // a hostile page must not make the plugin crash
			err = fmt.Errorf("the converter failed: %v", r)
		}
	}()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return "", "", err
	}
	if n := find(root, func(n *html.Node) bool { return n.DataAtom == atom.Title && n.Namespace == "" }); n != nil &&
		n.FirstChild != nil {
		title = strings.Join(strings.Fields(n.FirstChild.Data), " ")
	}
	if format == formatHTML {
		return text, title, nil
	}
	address = baseOf(root, address)
	readable(root, format)
	if n := mainContent(root); n != nil {
		if out, err = render(n, address, format); err != nil || out != "" {
			return out, title, err
		}
		if root, err = html.Parse(strings.NewReader(text)); err != nil { // parse the page again, because rendering changes the nodes
			return "", "", err
		}
		readable(root, format)
	}
	out, err = render(root, address, format)
	return out, title, err
}

// render returns a node as Markdown, or as plain text.
func render(root *html.Node, address, format string) (string, error) {
	if format == formatText || !convertible(root) {
		return plainText(root), nil
	}
	plugins := []converter.Plugin{base.NewBasePlugin(), commonmark.NewCommonmarkPlugin()}
	if smallTables(root) {
		plugins = append(plugins, table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve)))
	}
	c := converter.NewConverter(converter.WithPlugins(plugins...))
	if !escapable(root) {
		c = converter.NewConverter(converter.WithPlugins(plugins...),
			converter.WithEscapeMode(converter.EscapeModeDisabled))
	}
	for _, tag := range omitted {
		c.Register.TagType(tag, converter.TagTypeRemove, converter.PriorityEarly)
	}
	b, err := c.ConvertNode(root, converter.WithDomain(address))
	return strings.ReplaceAll(string(b), "  <br />", "<br />"), err // in a cell, the mark of a line break is superfluous
}

const (
	// maxNodes is the maximum number of nodes in a page that is converted to Markdown. The converter needs about a
	// kilobyte for each node.
	maxNodes = 200_000
	// maxQuotes is the maximum depth of nested quotations and lists. For each level, the converter repeats a mark on
	// every line.
	maxQuotes = 24
	// maxEscaped is the maximum length in bytes of a text in which the converter escapes special characters.
	// maxBrackets is the maximum number of "[" in such a text. For each "[", the converter searches the rest of the
	// text.
	maxEscaped  = 1 << 20
	maxBrackets = 4000
)

// convertible reports whether the converter can convert a page without much time and memory.
func convertible(root *html.Node) bool {
	nodes := 0
	var walk func(n *html.Node, quotes int) bool
	walk = func(n *html.Node, quotes int) bool {
		if n.DataAtom == atom.Blockquote || n.DataAtom == atom.Ul || n.DataAtom == atom.Ol {
			quotes++
		}
		if nodes++; nodes > maxNodes || quotes > maxQuotes {
			return false
		}
		for c := range n.ChildNodes() {
			if !walk(c, quotes) {
				return false
			}
		}
		return true
	}
	return walk(root, 0) // the parser limits the depth to 512
}

// escapable reports whether the text of a page is short enough to be escaped.
func escapable(root *html.Node) bool {
	size, brackets := 0, 0
	for d := range root.Descendants() {
		if d.Type == html.TextNode {
			size += len(d.Data)
			brackets += strings.Count(d.Data, "[")
		}
	}
	return size <= maxEscaped && brackets <= maxBrackets
}

// This list contains the HTML elements without text for a reader.
var omitted = []string{
	"nav", "svg", "canvas", "noscript", "template", "button", "select", "script", "style", "head", "iframe",
}

// maxCells is the maximum number of cells in all tables of a page. It includes cells that the converter adds for spans
// and for rows shorter than the widest row. Without the limit, a small page could become gigabytes of text.
const maxCells = 50_000

// smallTables reports whether all tables of a page together have at most maxCells cells.
func smallTables(root *html.Node) bool {
	rows, widest, cells, inRow := 0, 0, 0, 0
	span := func(n *html.Node, name string) int {
		v, err := strconv.Atoi(attribute(n, name))
		if err != nil {
			return 1
		}
		return min(max(1, v), maxCells)
	}
	for n := range root.Descendants() {
		switch n.DataAtom {
		case atom.Tr:
			rows, inRow = rows+1, 0
		case atom.Td, atom.Th:
			columns := span(n, "colspan")
			inRow += columns
			cells += columns * span(n, "rowspan")
			widest = max(widest, inRow)
		}
		if cells > maxCells || rows*widest > maxCells {
			return false
		}
	}
	return true
}

// plainText returns the text of a node without markup. Each block begins on a new line.
func plainText(root *html.Node) string {
	var b strings.Builder
	gap, newline := false, false
	var walk func(n *html.Node, literal bool)
	write := func(text string, literal bool) {
		if literal {
			b.WriteString(text)
			gap, newline = false, strings.HasSuffix(text, "\n")
			return
		}
		for i, word := range strings.Fields(text) {
			if (gap || i > 0 || startsBlank(text)) && b.Len() > 0 && !newline {
				b.WriteByte(' ')
			}
			b.WriteString(word)
			gap, newline = false, false
		}
		gap = gap || text != "" && unicode.IsSpace(rune(text[len(text)-1]))
	}
	breakLine := func() {
		if b.Len() > 0 && !newline {
			b.WriteByte('\n')
		}
		gap, newline = false, true
	}
	walk = func(n *html.Node, literal bool) {
		switch {
		case n.Type == html.TextNode:
			write(n.Data, literal)
			return
		case n.Type == html.ElementNode && slices.Contains(omitted, n.Data), n.Type == html.CommentNode:
			return
		case n.DataAtom == atom.Br:
			breakLine()
		case n.DataAtom == atom.Td || n.DataAtom == atom.Th:
			gap = true
		}
		block := slices.Contains(blocks, n.DataAtom)
		if block {
			breakLine()
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, literal || n.DataAtom == atom.Pre)
		}
		if block {
			breakLine()
		}
	}
	walk(root, false) // the parser limits the depth to 512
	return strings.TrimSpace(b.String())
}

func startsBlank(text string) bool { return text != "" && unicode.IsSpace(rune(text[0])) }

// This list contains the elements that begin and end a line.
var blocks = []atom.Atom{
	atom.P, atom.Div, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Ul, atom.Ol, atom.Li, atom.Dl, atom.Dt,
	atom.Dd, atom.Pre, atom.Blockquote, atom.Table, atom.Tr,
	atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Aside, atom.Figure, atom.Figcaption, atom.Hr,
	atom.Form, atom.Fieldset, atom.Details, atom.Summary, atom.Address,
}

// mainContent returns the main element of a page. If the page has no main element or several, it returns nil.
func mainContent(root *html.Node) *html.Node {
	var found []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && (n.DataAtom == atom.Main || attribute(n, "role") == "main") &&
			!within(n, found) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// within reports whether a node is below one of the other nodes.
func within(n *html.Node, others []*html.Node) bool {
	for _, o := range others {
		for p := n.Parent; p != nil; p = p.Parent {
			if p == o {
				return true
			}
		}
	}
	return false
}

func find(root *html.Node, is func(n *html.Node) bool) *html.Node {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && is(n) {
			return n
		}
	}
	return nil
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
