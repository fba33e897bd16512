import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.tensorflow.Result;
import org.tensorflow.SavedModelBundle;
import org.tensorflow.SessionFunction;
import org.tensorflow.Signature.TensorDescription;
import org.tensorflow.Tensor;
import org.tensorflow.ndarray.NdArrays;
import org.tensorflow.ndarray.Shape;
import org.tensorflow.proto.DataType;
import org.tensorflow.types.TFloat32;
import org.tensorflow.types.TString;

/**
 * Lets an export answer from Java, as a model server does: `java Predict.java EXPORT REQUEST ANSWER`.
 *
 * <p>The request is in the columnar form of TensorFlow Serving's REST API, {"signature_name": ..., "inputs": {...}}, and
 * so is the answer, {"outputs": {...}}. Types are those of the signature.
 */
public final class Predict {
  public static void main(String[] arguments) throws Exception {
    JsonObject request;
    try (Reader reader = Files.newBufferedReader(Path.of(arguments[1]))) {
      request = new Gson().fromJson(reader, JsonObject.class);
    }
    try (SavedModelBundle model = SavedModelBundle.load(arguments[0], "serve")) {
      SessionFunction function = model.function(request.get("signature_name").getAsString());
      JsonObject given = request.getAsJsonObject("inputs");
      Map<String, Tensor> inputs = new HashMap<>();
      for (Map.Entry<String, TensorDescription> entry : function.signature().getInputs().entrySet()) {
        JsonElement values = given.get(entry.getKey());
        inputs.put(entry.getKey(), tensor(values == null ? new JsonArray() : values.getAsJsonArray(), entry.getValue()));
      }
      JsonObject outputs = new JsonObject();
      try (Result result = function.call(inputs)) {
        for (Map.Entry<String, Tensor> entry : result) {
          outputs.add(entry.getKey(), json(entry.getValue(), 0, new long[entry.getValue().shape().numDimensions()]));
        }
      }
      JsonObject answer = new JsonObject();
      answer.add("outputs", outputs);
      Files.writeString(Path.of(arguments[2]), answer.toString());
    }
  }

  private static Tensor tensor(JsonArray values, TensorDescription told) {
    int rank = told.shape.numDimensions();
    long width = rank == 2 ? told.shape.get(1) : 1;
    Shape shape = rank == 2 ? Shape.of(values.size(), width) : Shape.of(values.size());
    if (told.dataType == DataType.DT_STRING) {
      var strings = NdArrays.ofObjects(String.class, shape);
      for (int row = 0; row < values.size(); row++) {
        strings.setObject(values.get(row).getAsString(), row);
      }
      return TString.tensorOf(strings);
    }
    var numbers = NdArrays.ofFloats(shape);
    for (int row = 0; row < values.size(); row++) {
      for (int column = 0; column < width; column++) {
        if (rank == 2) {
          numbers.setFloat(values.get(row).getAsJsonArray().get(column).getAsFloat(), row, column);
        } else {
          numbers.setFloat(values.get(row).getAsFloat(), row);
        }
      }
    }
    return TFloat32.tensorOf(numbers);
  }

  private static JsonElement json(Tensor tensor, int dimension, long[] place) {
    if (dimension < place.length) {
      JsonArray values = new JsonArray();
      for (place[dimension] = 0; place[dimension] < tensor.shape().get(dimension); place[dimension]++) {
        values.add(json(tensor, dimension + 1, place));
      }
      return values;
    }
    JsonArray one = new JsonArray();
    if (tensor instanceof TString) {
      one.add(((TString) tensor).getObject(place));
    } else {
      one.add(((TFloat32) tensor).getFloat(place));
    }
    return one.get(0);
  }
}
