package principal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"toolhost.dev/sdk/durable"
)

// loginTokenPrefix begins the names of files with access tokens in the state directories of plugins.
const loginTokenPrefix = "access-token-"

// TokenFile returns the name of the file with the access token for a server. Fields of different configurations can
// have the same name and so the same directory. The name of the file depends on the server, so that a plugin never
// sends a token to another server. The plugin computes the name, too.
func TokenFile(resource string) string {
	sum := sha256.Sum256([]byte(resource))
	return loginTokenPrefix + hex.EncodeToString(sum[:16])
}

// ClearLogins removes the access tokens in the state directory of a plugin that connects to no remote server.
func ClearLogins(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, loginTokenPrefix+"*")) // the error is ignored, because the pattern is valid
	for _, f := range files {
		_ = os.Remove(f) // ignore the error: another host can have removed the file
	}
}

// keeperInterval is the time between two checks of the delivered tokens. A login or logout takes effect after this
// time.
const keeperInterval = 5 * time.Second

// LoginKeeper delivers access tokens to plugins. A plugin never gets the refresh token. It is safe for concurrent use.
type LoginKeeper struct {
	store    *Logins
	appeared func(ctx context.Context) (used bool) // see [NewLoginKeeper]
	log      *slog.Logger

	mu     sync.Mutex
	places map[place]string   // last delivered token
	failed map[string]failure // last failure by server
	stop   context.CancelFunc
	done   chan struct{}
}

// place is the state directory of a plugin that connects to a server.
type place struct{ resource, dir string }

// failure is a login that could not be renewed.
type failure struct {
	obtained time.Time // identifies the login
	at       time.Time
}

// retryKeeperAfter is the time after which a login that could not be renewed is renewed again.
const retryKeeperAfter = time.Minute

// longestPause is the longest time between two calls of the function "appeared" of a keeper for the same token.
const longestPause = time.Hour

// NewLoginKeeper returns a keeper for a store. The function "appeared" is called after a plugin without a token has got
// one. It is called again, at growing intervals, until it reports that the token was used. It can be nil. The caller
// must call Close.
func NewLoginKeeper(s *Logins, appeared func(ctx context.Context) (used bool), log *slog.Logger) *LoginKeeper {
	return &LoginKeeper{
		store: s, appeared: appeared, log: log, places: make(map[place]string), failed: make(map[string]failure),
	}
}

// Deliver writes the access token for a server to the state directory of a plugin, and replaces the file when the token
// changes. Without a login, it removes the file. It is called before each start of the plugin. The updates end when the
// directory is removed.
func (k *LoginKeeper) Deliver(ctx context.Context, resource, dir string) {
	if k.store.dir == "" || dir == "" {
		return
	}
	k.mu.Lock()
	p := place{resource, dir}
	k.places[p] = "\x00" // differs from every token, so that the file is written or removed
	if k.stop == nil {
		var watch context.Context
		watch, k.stop = context.WithCancel(context.WithoutCancel(ctx))
		k.done = make(chan struct{})
		go k.watch(watch)
	}
	k.mu.Unlock()
	k.update(ctx, p)
}

// Obtained returns the time of the login at a server. It is zero if nobody logged in.
func (k *LoginKeeper) Obtained(resource string) time.Time {
	if l, err := k.store.Load(resource); err == nil && l != nil && resource != "" {
		return l.Obtained
	}
	return time.Time{}
}

// watch updates all places at intervals.
func (k *LoginKeeper) watch(ctx context.Context) {
	defer close(k.done)
	tick := time.NewTicker(keeperInterval)
	defer tick.Stop()
	var pause time.Duration // until Appeared is called again; zero if it need not be called
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if k.Update(ctx) {
			pause, next = keeperInterval, time.Now()
		}
		if k.appeared == nil || pause == 0 || time.Now().Before(next) {
			continue
		}
		if k.appeared(ctx) {
			pause = 0
		} else {
			pause = min(2*pause, longestPause)
			next = time.Now().Add(pause)
		}
	}
}

// Update makes the plugins use the current logins at once. A login or logout otherwise takes effect after some seconds.
// It reports whether a plugin without a token has got one.
func (k *LoginKeeper) Update(ctx context.Context) (appeared bool) {
	k.mu.Lock()
	var all []place
	for p := range k.places {
		all = append(all, p)
	}
	k.mu.Unlock()
	for _, p := range all {
		appeared = k.update(ctx, p) || appeared
	}
	return appeared
}

// update makes the file of a place agree with the store. It reports whether a place without a token has got one.
func (k *LoginKeeper) update(ctx context.Context, p place) (appeared bool) {
	token := ""
	if k.waits(p.resource) {
		return false
	}
	l, err := k.store.Fresh(ctx, p.resource)
	if err != nil && ctx.Err() == nil {
		k.fail(p.resource)
		k.log.Warn("a login cannot be used", "server", loginHost(p.resource), "error", err, "remedy",
			"toolhost mcp login FIELD")
	}
	if l != nil {
		token = l.Access
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if _, gone := os.Stat(p.dir); errors.Is(gone, os.ErrNotExist) {
		delete(k.places, p)
		return false
	}
	before := k.places[p]
	if before == token {
		return false
	}
	if err := write(filepath.Join(p.dir, TokenFile(p.resource)), token); err != nil {
		k.log.Warn("an access token cannot be delivered", "server", loginHost(p.resource), "error", err)
		return false
	}
	k.places[p] = token
	return before == ""
}

// waits reports whether the login at a server failed a short time ago and is still the same login.
func (k *LoginKeeper) waits(resource string) bool {
	k.mu.Lock()
	f, ok := k.failed[resource]
	k.mu.Unlock()
	if !ok || time.Since(f.at) > retryKeeperAfter {
		return false
	}
	l, err := k.store.Load(resource)
	return err != nil || l != nil && l.Obtained.Equal(f.obtained)
}

// fail records that the login at a server failed.
func (k *LoginKeeper) fail(resource string) {
	f := failure{at: time.Now()}
	if l, err := k.store.Load(resource); err == nil && l != nil {
		f.obtained = l.Obtained
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed[resource] = f
}

// write replaces a file with a token. If the token is empty, it removes the file.
func write(file, token string) error {
	if token != "" {
		return durable.ReplaceUnsynced(file, []byte(token))
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Close stops the updates. The delivered tokens stay, because other hosts with the same state directory use them, too.
func (k *LoginKeeper) Close() {
	k.mu.Lock()
	stop, done := k.stop, k.done
	k.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-done
}
