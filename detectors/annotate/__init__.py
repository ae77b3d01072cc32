"""What lies behind findings of any kind: one annotator each (:mod:`scalana.detectors.annotator`)."""
