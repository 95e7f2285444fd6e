package telemetry

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Unmatched is the route label of requests that no registered route took.
const Unmatched = "unmatched"

// The reasons why a device's stream ends, as the label of herald_streams_closed_total.
const (
	StreamGone     = "gone"     // the device left, or its connection broke
	StreamReplaced = "replaced" // the same device opened a newer one (4000)
	StreamUnpaired = "unpaired" // the mailbox or the device was removed (4001)
	StreamSlow     = "slow"     // it did not take what was written to it
	StreamStopping = "stopping" // the relay stops
	StreamOther    = "other"
)

// The kinds of records that sweeps remove or settle, as the label of herald_swept_total.
const (
	SweptExpired       = "expired"       // notifications that waited too long
	SweptNotifications = "notifications" // past retention
	SweptUsage         = "usage"
	SweptCodes         = "codes"
	SweptMarks         = "marks"
	SweptMailboxes     = "mailboxes"
	SweptRequests      = "requests" // requests for approval that nobody decided
	SweptConsents      = "consents" // requests for approval past retention
	SweptAudit         = "audit"
	SweptClips         = "clips"
	SweptOverdue       = "event_overdue"       // deliveries of events past their deadline
	SweptEvents        = "event_events"        // events past retention
	SweptDeliveries    = "event_deliveries"    // likewise
	SweptSubscriptions = "event_subscriptions" // likewise
	SweptOther         = "other"
)

// Metrics are the numbers of one process. Methods may be called concurrently; on a nil *Metrics they do nothing, so
// tests need none.
type Metrics struct {
	registry *prometheus.Registry
	routes   map[string]*routeMetrics // set once, then only read

	updates       prometheus.Histogram
	updatesFailed prometheus.Counter
	closed        *prometheus.CounterVec
	swept         *prometheus.CounterVec
	events        events
}

// routeMetrics spare the lookup by label on each request.
type routeMetrics struct {
	route    string
	seconds  prometheus.Observer
	requests *prometheus.CounterVec
	status   [600]atomic.Pointer[prometheus.Counter] // by HTTP status, made when first answered with
}

// count returns the counter of a status; whatever is no HTTP status counts as "other".
func (rm *routeMetrics) count(status int) prometheus.Counter {
	if status < 100 || status >= len(rm.status) {
		return rm.requests.WithLabelValues(rm.route, "other")
	}
	if c := rm.status[status].Load(); c != nil {
		return *c
	}
	c := rm.requests.WithLabelValues(rm.route, strconv.Itoa(status))
	rm.status[status].Store(&c)
	return c
}

// requestBuckets reach from a read in memory to the longest wait for a reply.
var requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 60}

// NewMetrics makes the numbers of a process that serves these routes, named by their patterns.
func NewMetrics(build Build, routes []string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), routes: map[string]*routeMetrics{}}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := m.gauge("herald_build_info", "Always 1; the labels tell which program this is.",
		prometheus.Labels{"version": build.Version, "commit": build.Commit, "go": build.Go})
	info.Set(1)
	m.addRoutes(append([]string{Unmatched}, routes...))
	m.addStore()
	m.closed = m.counters("herald_streams_closed_total", "Device streams that ended, by reason.", "reason",
		StreamGone, StreamReplaced, StreamUnpaired, StreamSlow, StreamStopping, StreamOther)
	m.swept = m.counters("herald_swept_total", "Records that sweeps removed or expired, by kind.", "kind",
		SweptExpired, SweptNotifications, SweptUsage, SweptCodes, SweptMarks, SweptMailboxes, SweptRequests, SweptConsents,
		SweptAudit, SweptClips, SweptOverdue, SweptEvents, SweptDeliveries, SweptSubscriptions, SweptOther)
	m.addEvents()
	return m
}

func (m *Metrics) addRoutes(routes []string) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "herald_request_seconds",
		Help: "Time from a request's arrival to the end of its answer, by route.", Buckets: requestBuckets}, []string{"route"})
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "herald_requests_total",
		Help: "Requests answered, by route and status."}, []string{"route", "status"})
	m.registry.MustRegister(seconds, requests)
	for _, route := range routes {
		m.routes[route] = &routeMetrics{route: route, seconds: seconds.WithLabelValues(route), requests: requests}
	}
}

func (m *Metrics) addStore() {
	m.updates = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "herald_store_update_seconds",
		Help: "Time of a durable update of the store, from asking for it to its commit.", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}})
	m.updatesFailed = prometheus.NewCounter(prometheus.CounterOpts{Name: "herald_store_updates_failed_total",
		Help: "Updates that the database could not make durable."})
	m.registry.MustRegister(m.updates, m.updatesFailed)
}

func (m *Metrics) gauge(name, help string, labels prometheus.Labels) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	m.registry.MustRegister(g)
	return g
}

// counters makes one counter per value of a label, so that each shows from the start.
func (m *Metrics) counters(name, help, label string, values ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	m.registry.MustRegister(v)
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

// Request counts a finished request. route is a pattern given to NewMetrics; any other counts as Unmatched. Status 499
// stands for a client that went away first.
func (m *Metrics) Request(route string, status int, elapsed time.Duration) {
	if m == nil {
		return
	}
	rm := m.routes[route]
	if rm == nil {
		rm = m.routes[Unmatched]
	}
	rm.seconds.Observe(elapsed.Seconds())
	rm.count(status).Inc()
}

// Update counts one update of the store: how long its caller waited for the commit, and whether the database failed it.
func (m *Metrics) Update(elapsed time.Duration, failed bool) {
	switch {
	case m == nil:
	case failed:
		m.updatesFailed.Inc()
	default:
		m.updates.Observe(elapsed.Seconds())
	}
}

// StreamClosed counts a stream that ended, by one of the reasons above; any other counts as StreamOther.
func (m *Metrics) StreamClosed(reason string) {
	if m == nil {
		return
	}
	switch reason {
	case StreamGone, StreamReplaced, StreamUnpaired, StreamSlow, StreamStopping:
	default:
		reason = StreamOther
	}
	m.closed.WithLabelValues(reason).Inc()
}

// Swept counts records that a sweep dealt with, by one of the kinds above; any other counts as SweptOther.
func (m *Metrics) Swept(kind string, n int) {
	if m == nil || n <= 0 {
		return
	}
	switch kind {
	case SweptExpired, SweptNotifications, SweptUsage, SweptCodes, SweptMarks, SweptMailboxes, SweptRequests, SweptConsents,
		SweptAudit, SweptClips, SweptOverdue, SweptEvents, SweptDeliveries, SweptSubscriptions:
	default:
		kind = SweptOther
	}
	m.swept.WithLabelValues(kind).Add(float64(n))
}

// Streams adds the gauge of open device streams; read is asked at each scrape.
func (m *Metrics) Streams(read func() int) {
	m.gaugeFunc("herald_streams_open", "Device streams open in this process.", read)
}

// Waits adds the gauge of requests that wait for a reply.
func (m *Metrics) Waits(read func() int) {
	m.gaugeFunc("herald_waits_open", "Requests that wait for a reply in this process.", read)
}

func (m *Metrics) gaugeFunc(name, help string, read func() int) {
	if m != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
	}
}

// Handler serves the numbers in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
