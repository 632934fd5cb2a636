package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"driftline/internal/settings"
)

func newCheck() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a file with the settings of detection and print all that is in effect",
		Long: `check reads the file as serve and standalone do. It names everything that is wrong with it and exits with 1,
or prints every setting with its value, defaults included, as a file that gives the same settings.`,
		Example: `  detectd check detectd.yaml
  detectd check --config detectd.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return fmt.Errorf("%d files: check takes one file", len(args))
			case len(args) == 1 && path != "" && path != args[0]:
				return fmt.Errorf("%s and --config %s: give one file", args[0], path)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				path = args[0]
			}
			cfg, err := settings.Load(path)
			if err != nil {
				return err
			}
			text, err := settings.Text(cfg)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	c.Flags().StringVar(&path, "config", "", "YAML file; without it the defaults are printed")
	return c
}
