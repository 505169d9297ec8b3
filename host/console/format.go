package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

// escapes matches the escape sequences of terminals (ECMA-48): control strings such as titles and links, control
// sequences such as colours, and short ones. Each kind has a form that begins with ESC and a form that begins with a
// single control character. A control string without its terminator does not match, because the match would hide the
// rest of the text.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\x1b[PX\]^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})` +
		`|(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\\x60-~]`)
})

// maxShown is the maximum size of a text in a page, in bytes.
const maxShown = 4 << 10

// plain returns a text for people: without escape sequences, with other control characters and marks of text direction
// in visible form, and cut to a size that a browser can show. Templates escape markup.
func plain(v any) string { return plainUpTo(v, maxShown) }

// maxDiff is the maximum size of a diff in a page, in bytes.
const maxDiff = 128 << 10

func plainUpTo(v any, limit int) string {
	if raw, ok := v.(json.RawMessage); ok {
		v = string(raw)
	}
	text := fmt.Sprint(v)
	cut := false
	if len(text) > limit {
		text, cut = text[:limit], true
	}
	text = escapes().ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), "")
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == '\r':
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d' && r != '\u00ad':
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// ago returns how long ago a time was.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := time.Since(t)
	switch {
	case d < 0:
		return "in " + short(-d)
	case d < time.Second:
		return "now"
	}
	return short(d) + " ago"
}

// short returns a duration with one or two units.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// took returns the duration of a call. A short one is in milliseconds.
func took(d time.Duration) string {
	if d >= time.Second {
		return short(d)
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// bytesText returns a size for people.
func bytesText(n float64) string {
	unit := 0
	for n >= 1024 && unit < 4 {
		n /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}

var functions = template.FuncMap{
	"plain": plain,
	"diff":  func(text string) string { return plainUpTo(text, maxDiff) },
	"ago":   ago,
	"since": func(t time.Time) string { return short(time.Since(t)) },
	"stamp": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"clock": func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") },
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"short": func(digest string) string {
		digest = strings.TrimPrefix(digest, "sha256:")
		return digest[:min(12, len(digest))]
	},
	"ms": func(v float64) string {
		if v == 0 {
			return "–" // no call has ended
		}
		return took(time.Duration(v * float64(time.Millisecond)))
	},
	"took":  took,
	"bytes": func(v any) string { return bytesText(toFloat(v)) },
	"path":  url.PathEscape,
	"join":  strings.Join,
	// own reports whether a session belongs to the local user. The key of such a session contains no
	// principal.
	"own":  func(session string) bool { return !strings.HasPrefix(session, "principal:") },
	"json": func(v any) string { b, _ := json.Marshal(v); return string(b) },
	"percent": func(part, whole uint64) string {
		if whole == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
	},
}

func toFloat(v any) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	case int:
		return float64(n)
	case float64:
		return n
	}
	return 0
}
