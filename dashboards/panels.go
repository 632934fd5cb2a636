package dashboards

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const (
	unitMilliseconds = "ms"
	unitShare        = "percentunit"
	unitCount        = "short"
	panelHeight      = 8
	half             = 12
	third            = 8
	quarter          = 6
	full             = 24
)

func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr(PluginType), Uid: cog.ToPtr("${datasource}")}
}

func lines(title, description, unit string, width uint32, sql string) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(datasource()).
		Unit(unit).
		Min(0).
		Height(panelHeight).
		Span(width).
		LineWidth(2).
		FillOpacity(0).
		ShowPoints(common.VisibilityModeAuto).
		Legend(common.NewVizLegendOptionsBuilder().
			DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom).
			ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).
			Sort(common.SortOrderDescending)).
		WithTarget(seriesQuery(sql))
}

func stacked(title, description, unit string, width uint32, sql string) *timeseries.PanelBuilder {
	return lines(title, description, unit, width, sql).
		LineWidth(1).
		FillOpacity(60).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
}

// number shows one value; it turns yellow and red at the two levels.
func number(title, description, unit string, yellow, red float64, sql string) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(datasource()).
		Unit(unit).
		Height(4).
		Span(quarter).
		NoValue("no data").
		ColorMode(common.BigValueColorModeValue).
		GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Thresholds(dashboard.NewThresholdsConfigBuilder().
			Mode(dashboard.ThresholdsModeAbsolute).
			Steps([]dashboard.Threshold{
				{Color: "green"},
				{Color: "yellow", Value: cog.ToPtr(yellow)},
				{Color: "red", Value: cog.ToPtr(red)},
			})).
		WithTarget(tableQuery(sql))
}

func rowsTable(title, description string, sql string) *table.PanelBuilder {
	return table.NewPanelBuilder().
		Title(title).
		Description(description).
		Datasource(datasource()).
		Unit(unitCount).
		Height(panelHeight+2).
		Span(full).
		OverrideByName("trace_id", opensTrace()).
		WithTarget(tableQuery(sql))
}
