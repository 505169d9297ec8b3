package metrics

import (
	"math/bits"
	"time"
)

const (
	// perOctave buckets cover each power of two of microseconds, so that what is told of a
	// time is at most 1/32 off.
	perOctave = 16
	// octaves above the first perOctave microseconds, up to 19 hours.
	octaves = 32
	buckets = perOctave * (octaves + 1)
)

// times are how long calls took: in buckets of a fixed number, whatever comes.
type times struct {
	count    uint64
	sum, max time.Duration
	buckets  [buckets]uint64
}

// bucketOf returns the bucket of a duration. Bucket i holds durations above limit(i-1), up to and including limit(i).
// The last bucket holds all longer ones.
func bucketOf(d time.Duration) int {
	if d <= time.Microsecond {
		return 0
	}
	us := uint64((d - 1) / time.Microsecond) // of 2 µs, which are still in the bucket that ends there, 1
	if us < perOctave {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(perOctave)
	return min(perOctave*(shift+1)+int(us>>shift)-perOctave, buckets-1)
}

// limit is the longest duration in a bucket.
func limit(bucket int) time.Duration {
	us := bucket + 1
	if shift := bucket/perOctave - 1; shift > 0 {
		us = (perOctave + bucket%perOctave + 1) << shift
	}
	return time.Duration(us) * time.Microsecond
}

func (t *times) add(d time.Duration) {
	d = max(d, 0)
	t.count++
	t.sum += d
	t.max = max(t.max, d)
	t.buckets[bucketOf(d)]++
}

// quantile is the time that a share q of the calls did not go beyond.
func (t *times) quantile(q float64) time.Duration {
	if t.count == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(t.count)+0.999999)) // the nearest rank
	var seen uint64
	for i, n := range t.buckets {
		if seen += n; seen >= rank {
			return min(middle(i), t.max)
		}
	}
	return t.max
}

func middle(bucket int) time.Duration {
	if bucket == 0 {
		return limit(0)
	}
	return (limit(bucket-1) + limit(bucket)) / 2
}

// Times sums up how long calls took, in milliseconds. The quantiles are at most 3.2 % off, or a
// microsecond.
type Times struct {
	Count   uint64  `json:"count"`
	Sum     float64 `json:"sum_ms"`
	Average float64 `json:"average_ms"`
	P50     float64 `json:"p50_ms"`
	P95     float64 `json:"p95_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	// Buckets say how many took at most so many seconds. Not in JSON.
	Buckets map[float64]uint64 `json:"-"`
}

// The buckets that are told of end at each power of two between 64 µs and 18 minutes.
const firstTold, lastTold = 6, 30

func (t *times) summary() Times {
	s := Times{
		Count: t.count, Sum: milliseconds(t.sum), P50: milliseconds(t.quantile(0.5)), P95: milliseconds(t.quantile(0.95)), P99: milliseconds(t.quantile(0.99)),
		Max: milliseconds(t.max), Buckets: make(map[float64]uint64, lastTold-firstTold+1),
	}
	if t.count > 0 {
		s.Average = s.Sum / float64(t.count)
	}
	var seen uint64
	next := 0
	for exp := firstTold; exp <= lastTold; exp++ {
		end := time.Microsecond << exp
		for ; next < buckets && limit(next) <= end; next++ {
			seen += t.buckets[next]
		}
		s.Buckets[end.Seconds()] = seen
	}
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
