package service

import (
	"context"

	"github.com/inspan/inspan/internal/telemetry"
	"github.com/inspan/inspan/pkg/events"
)

// recorder makes spans of what a role stores; nil where nothing is exported.
func (h *Host) recorder(ctx context.Context, role events.Service, instance string) (*telemetry.Recorder, error) {
	return telemetry.New(context.WithoutCancel(ctx), h.cfg.exports(), telemetry.Deps{Station: h.cfg.Station, Role: role,
		Version: Version(), Instance: instance,
		Journal: h.ports.Journal, Failed: func(err error) {
			h.log.Warn().Err(err).Msg("spans were not exported: see that OTEL_EXPORTER_OTLP_ENDPOINT is an OTLP/HTTP receiver and that it runs")
		}})
}

// closeRecorder exports what is left of a role that has ended.
func (h *Host) closeRecorder(ctx context.Context, r *telemetry.Recorder) {
	if err := r.Close(context.WithoutCancel(ctx)); err != nil {
		h.log.Warn().Err(err).Msg("the last spans and metrics were not exported")
	}
}
