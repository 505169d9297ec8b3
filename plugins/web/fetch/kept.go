package fetch

import (
	"sync"
	"time"
)

// pages is a cache of the pages that were fetched last. A call with an offset reads its page from the cache. It is safe
// for concurrent use. The zero value is empty.
type pages struct {
	mu  sync.Mutex
	all []keptPage // newest page first
}

type keptPage struct {
	url, format string
	at          time.Time
	page        *page
}

const (
	maxKept = 8
	keptFor = 15 * time.Minute
)

// find returns a page that was fetched within the last 15 minutes.
func (k *pages) find(url, format string) (p *page, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.all {
		if c.url == url && c.format == format && time.Since(c.at) < keptFor {
			return c.page, true
		}
	}
	return nil, false
}

// add adds a page and removes an earlier copy of the page. If too many pages are stored, it also removes the oldest
// page.
func (k *pages) add(url, format string, p *page) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := []keptPage{{url, format, time.Now(), p}}
	for _, c := range k.all {
		if (c.url != url || c.format != format) && len(all) < maxKept {
			all = append(all, c)
		}
	}
	k.all = all
}
