package sim

import "time"

// The names that appear on the spans.
const (
	// ServiceAffected is the service whose tool and model go wrong in ScenarioIncident.
	ServiceAffected = "checkout-assistant"
	// ServiceBystander is a service that no fault touches.
	ServiceBystander = "help-search"
	// AgentAffected is the affected service's agent.
	AgentAffected = "checkout"
	// ToolAffected is the tool that turns flaky in phase 1.
	ToolAffected = "check_inventory"
	// ModelAffected is the model that slows down in phase 2 and times out in phase 3.
	ModelAffected = "gpt-4.1"
	// GatewayAffected is the address that answers 504.
	GatewayAffected = "llm-gateway.internal"
)

// endpoint is a model or a tool, where it lives, and how often it is chosen.
type endpoint struct {
	name     string
	spanName string
	provider string
	address  string
	method   string
	weight   float64
	// flaky and slow mark what the faults touch.
	flaky, slow bool
}

// profile is one service and its agent.
type profile struct {
	service, version, agent, route string
	spanRoot, spanAgent            string
	budget                         time.Duration
	// remainingAsEvent says where the planner states its remaining time: in an event on
	// the model call's span, or in an attribute of that span.
	remainingAsEvent bool
	model            Model
	models, tools    []endpoint
	affected         bool
}

func llm(name, provider, address string, weight float64, slow bool) endpoint {
	return endpoint{name: name, spanName: "chat " + name, provider: provider, address: address, method: "POST", weight: weight, slow: slow}
}

func tool(name, address, method string, weight float64, flaky bool) endpoint {
	return endpoint{name: name, spanName: "execute_tool " + name, address: address, method: method, weight: weight, flaky: flaky}
}

func affectedProfile(budget time.Duration) *profile {
	return &profile{
		service: ServiceAffected, version: "2.14.0", agent: AgentAffected, route: "/v1/assist",
		spanRoot: "POST /v1/assist", spanAgent: "invoke_agent " + AgentAffected,
		budget: budget, model: StandardModel(), affected: true,
		models: []endpoint{
			llm(ModelAffected, "openai", GatewayAffected, 0.65, true),
			llm("gpt-4.1-mini", "openai", GatewayAffected, 0.35, false),
		},
		tools: []endpoint{
			tool(ToolAffected, "inventory.internal", "GET", 0.40, true),
			tool("search_catalog", "catalog.internal", "POST", 0.30, false),
			tool("quote_shipping", "shipping.internal", "POST", 0.20, false),
			tool("load_profile", "profiles.internal", "GET", 0.10, false),
		},
	}
}

// bystanderProfile answers in one or two short steps and never hangs.
func bystanderProfile() *profile {
	m := StandardModel()
	m.Steps = []StepBand{{1, 1, 2}}
	m.Tool = LogNormal{-1.2, 0.5, 20 * time.Millisecond}
	m.StuckShare = 0
	return &profile{
		service: ServiceBystander, version: "0.9.3", agent: "help", route: "/v1/search",
		spanRoot: "POST /v1/search", spanAgent: "invoke_agent help",
		budget: 30 * time.Second, remainingAsEvent: true, model: m,
		models: []endpoint{llm("mistral-small-latest", "mistral_ai", "mistral-proxy.internal", 1, false)},
		tools:  []endpoint{tool("search_articles", "articles.internal", "POST", 1, false)},
	}
}

// pick chooses by weight; the weights of a list sum to 1.
func pick(list []endpoint, u float64) *endpoint {
	for i := range list {
		if u < list[i].weight {
			return &list[i]
		}
		u -= list[i].weight
	}
	return &list[len(list)-1]
}
