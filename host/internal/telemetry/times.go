package telemetry

import (
	"math/bits"
	"time"
)

const (
	// perOctave is the number of buckets per power of two, in microseconds. With 16 buckets, the error of a reported
	// duration is at most 1/32.
	perOctave = 16
	// octaves is the number of powers of two above the first perOctave microseconds. They cover up to 19 hours.
	octaves = 32
	buckets = perOctave * (octaves + 1)
)

// times is a histogram of the durations of calls with a fixed number of buckets.
type times struct {
	count    uint64
	sum, max time.Duration
	buckets  [buckets]uint64
}

// bucketOf returns the bucket of a duration. Bucket i contains durations that are greater than limit(i-1) and at most
// limit(i). The last bucket also contains all longer durations.
func bucketOf(d time.Duration) int {
	if d <= time.Microsecond {
		return 0
	}
	us := uint64((d - 1) / time.Microsecond) // subtract 1 ns first, because 2 µs belong to bucket 1
	if us < perOctave {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(perOctave)
	return min(perOctave*(shift+1)+int(us>>shift)-perOctave, buckets-1)
}

// limit returns the longest duration in a bucket.
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

// quantile returns the duration that a share q of the calls did not exceed.
func (t *times) quantile(q float64) time.Duration {
	if t.count == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(t.count)+0.999999)) // nearest-rank method
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

// Times summarizes the durations of calls, in milliseconds. The error of the quantiles is at most 3.2 % or one
// microsecond.
type Times struct {
	Count   uint64  `json:"count"`
	Sum     float64 `json:"sum_ms"`
	Average float64 `json:"average_ms"`
	P50     float64 `json:"p50_ms"`
	P95     float64 `json:"p95_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	// Buckets maps a duration in seconds to the number of calls that took at most this duration. The JSON form does not
	// contain Buckets.
	Buckets map[float64]uint64 `json:"-"`
}

// The reported buckets end at the powers of two between 64 µs and 18 minutes.
const firstTold, lastTold = 6, 30

func (t *times) summary() Times {
	s := Times{
		Count: t.count, Sum: milliseconds(t.sum), P50: milliseconds(t.quantile(0.5)),
		P95: milliseconds(t.quantile(0.95)), P99: milliseconds(t.quantile(0.99)),
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
