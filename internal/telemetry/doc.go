// Package telemetry is what an operator sees of a running relay: its log, its metrics, its version and the private
// listener that serves metrics and profiles.
//
// Neither log nor metrics ever hold notification text or secrets. Whoever logs leaves them out; as a second net, the log
// handler blanks whatever has the shape of a Herald token or a signing secret. Metric labels come from closed sets:
// registered routes, HTTP statuses, named reasons. A stranger cannot make a new series.
package telemetry
